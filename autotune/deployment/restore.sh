#!/bin/sh
# Puts a service back as a tuner found it. A timer on the service's own host starts this when the tuner has not been
# heard of for the length of its lease. By hand, as root:  sh restore.sh /run/autotune/UNIT
#
# Arguments: the folder of the unit, and the token that the lease must still hold (default: whatever it holds).
# It may be run again at any point; every step finds out for itself whether it is done.
set -u
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH

dir=$1
say() { echo "autotune: $*"; }
line_of() { sed -n "s/^$2=//p" "$1" 2>/dev/null | head -n 1; }

# 1. Fence the tuner off: whatever it sends from now on carries a token that the lease does not hold any more.
exec 9<"${dir%/*}"
flock -w 60 9 || say "the lock is held by a command that does not end; going on without it"
held=$(line_of "$dir/lease" token)
token=${2:-${held#host-}}
if [ -z "$held" ] || { [ "$held" != "$token" ] && [ "$held" != "host-$token" ]; }; then
    say "nothing to do: the lease ${token:-that was looked for} is over"
    exit 0
fi
facts=$dir/baseline-$token
unit=$(line_of "$facts" unit)
drop_in=$(line_of "$facts" drop_in)
if [ -z "$unit" ] || [ -z "$drop_in" ]; then
    say "$facts does not say what to put back"
    exit 1
fi
{ echo "token=host-$token"; grep -v '^token=' "$dir/lease"; } >"$dir/lease.new" && mv -f "$dir/lease.new" "$dir/lease"
exec 9<&-
say "the tuner of $unit was not heard of in time ($(line_of "$dir/lease" holder)): putting the baseline back"

# 2. Our drop-in, if it still is ours. Without a copy of it nothing was ever changed.
removed=absent
touched=no
reloaded=yes
if [ -e "$dir/drop-in" ] || [ -e "$dir/drop-in.next" ]; then
    touched=yes
    rm -f -- "$drop_in.new"
    if [ -e "$drop_in" ]; then
        if cmp -s -- "$dir/drop-in" "$drop_in" || cmp -s -- "$dir/drop-in.next" "$drop_in"; then
            rm -f -- "$drop_in" && removed=removed
        else
            removed=left
            say "$drop_in was changed by somebody else and is left as it is"
        fi
    fi
    [ "$(line_of "$facts" made_folder)" = yes ] && rmdir -- "${drop_in%/*}" 2>/dev/null
    left=60
    until systemctl daemon-reload; do # it wants 16 MiB free in /run, say; until then a start would start the trial again
        left=$((left - 1))
        [ $left -gt 0 ] || { reloaded=no && break; }
        say "systemd cannot read its files again; the next try is in 10 s"
        sleep 10
    done
fi

# 3. The server, unless what runs is the baseline already.
property() { systemctl show --property="$1" --value -- "$unit"; }
is_up() { case $(property ActiveState) in active | activating | reloading) return 0 ;; esac; return 1; }
is_baseline() {
    is_up || return 1
    case " $(line_of "$facts" invocations) " in *" $(property InvocationID) "*) return 0 ;; esac
    return 1
}
server=untouched
if [ $reloaded = no ]; then
    server=failed
elif [ $touched = yes ]; then
    server=kept
    systemctl reset-failed -- "$unit" 2>/dev/null
    if [ "$(line_of "$facts" was_up)" = yes ]; then
        if ! is_baseline; then
            server=failed
            for pause in 5 10 0; do
                if systemctl restart --no-ask-password -- "$unit" && is_up; then
                    server=started
                    break
                fi
                sleep $pause
                systemctl reset-failed -- "$unit" 2>/dev/null
            done
        fi
    elif is_up; then
        server=failed
        systemctl stop --no-ask-password -- "$unit" && server=stopped
    fi
fi

# 4. What each stop of the service has stopped too, and its start does not start: a router that requires it, say.
if [ $touched = yes ] && [ $server != failed ]; then
    for name in $(line_of "$facts" dependants); do
        case $(systemctl show --property=ActiveState --value -- "$name") in active | activating | reloading) continue ;; esac
        case $(line_of "$facts" was_up)-$name in no-* | *.target) mode=ignore-dependencies ;; *) mode=replace ;; esac
        say "starting $name, which ran before"
        systemctl start --no-block --no-ask-password --job-mode=$mode -- "$name"
    done
fi

# 5. What a profile boot logged by. Say what was done; then the lease is over.
rm -r -f -- "$dir/draft-hook"
{
    echo "token=$token"
    echo "when=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "drop_in=$removed"
    echo "server=$server"
} >"$dir/restored.new" && mv -f "$dir/restored.new" "$dir/restored"
[ $server = failed ] || rm -f -- "$dir/drop-in" "$dir/drop-in.next"
timer=$(line_of "$dir/lease" timer)
rm -f -- "$dir/lease"
[ -z "$timer" ] || systemctl stop --no-block --no-ask-password -- "$timer" 2>/dev/null # still armed when run by hand
say "done: drop-in $removed, server $server"
[ $server != failed ]
