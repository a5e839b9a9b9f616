#!/bin/sh
# A stand-in for nvidia-smi: /run/fake-gpu/PID holds lines "GPU MiB"; what dead processes held is free again.
gpus=2
idle_mb=4
total_mb=97887
alive=
for file in /run/fake-gpu/*; do
  [ -e "$file" ] && [ -d "/proc/${file##*/}" ] && alive="$alive $file"
done
held() { cat /dev/null $alive | awk -v gpu="$1" -v sum="$2" '$1 == gpu { sum += $2 } END { print sum }'; }
query= format=
for word in "$@"; do
  case $word in
    --query-gpu=* | --query-compute-apps=*) query=$word ;;
    --format=*) format=$word ;;
    -L) gpu=0; while [ $gpu -lt $gpus ]; do echo "GPU $gpu: Stand-in GPU (UUID: GPU-0000000$gpu)"; gpu=$((gpu + 1)); done; exit 0 ;;
  esac
done
unit=' MiB'
case $format in *nounits*) unit= ;; esac
case $query in
  --query-gpu=*)
    gpu=0
    while [ $gpu -lt $gpus ]; do
      line=
      for field in $(echo "${query#*=}" | tr , ' '); do
        case $field in
          index) value=$gpu ;;
          name) value='Stand-in GPU' ;;
          uuid) value=GPU-0000000$gpu ;;
          memory.used) value=$(held $gpu $idle_mb)$unit ;;
          memory.total) value=$total_mb$unit ;;
          memory.free) value=$((total_mb - $(held $gpu $idle_mb)))$unit ;;
          *) value='[N/A]' ;;
        esac
        line="$line${line:+, }$value"
      done
      echo "$line"
      gpu=$((gpu + 1))
    done ;;
  --query-compute-apps=*)
    for file in $alive; do
      pid=${file##*/}
      while read -r gpu mb; do
        line=
        for field in $(echo "${query#*=}" | tr , ' '); do
          case $field in
            pid) value=$pid ;;
            gpu_uuid) value=GPU-0000000$gpu ;;
            process_name) value=$(tr '\0' ' ' <"/proc/$pid/cmdline") ;;
            used_memory | used_gpu_memory) value=$mb$unit ;;
            *) value='[N/A]' ;;
          esac
          line="$line${line:+, }$value"
        done
        echo "$line"
      done <"$file"
    done ;;
  *) echo "stand-in: only --query-gpu, --query-compute-apps and -L" >&2; exit 2 ;;
esac
