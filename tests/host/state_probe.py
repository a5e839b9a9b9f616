"""Runs on a test host with the system's Python and prints as JSON how the host stands; see ``state.py``."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

FOLDERS = (
    *("/etc/systemd/system", "/run/systemd/system", "/run/systemd/system.control", "/run/systemd/transient"),
    *("/usr/local/lib/systemd/system", "/etc/sudoers.d", "/run/autotune", "/var/lib/autotune"),
)
PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "FragmentPath", "DropInPaths", "Type"),
    *("NeedDaemonReload", "Environment", "UnsetEnvironment", "Restart", "RestartUSec", "TimeoutStartUSec"),
    *("TimeoutStopUSec", "KillMode", "LimitNOFILE", "User", "WorkingDirectory"),
)
PASSING = {"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}
ARGUMENTS = "busctl --json=short get-property org.freedesktop.systemd1".split()  # noqa: SIM905


def ask(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout


def read_files() -> dict[str, dict[str, Any]]:
    found = {}
    for top in map(Path, FOLDERS):
        for path in [top, *sorted(top.rglob("*"))] if top.exists() else []:
            status = path.lstat()
            entry: dict[str, Any] = {
                "kind": stat.S_IFMT(status.st_mode),
                "mode": stat.S_IMODE(status.st_mode),
                "owner": [status.st_uid, status.st_gid],
            }
            if path.is_symlink():
                entry["content"] = str(path.readlink())
            elif path.is_file():
                entry["content"] = base64.b64encode(path.read_bytes()).decode()
            found[str(path)] = entry
    return found


def read_processes() -> list[dict[str, Any]]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
            group = (folder / "cgroup").read_text().strip().rsplit("::", maxsplit=1)[-1]
            state = (folder / "stat").read_text().rsplit(")", maxsplit=1)[1].split()[0]
        except OSError:
            continue
        if command != [""] and state != "Z":
            found.append({"pid": int(folder.name), "command": command, "group": group})
    return found


def read_environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in raw.split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in PASSING}


def read_server(port: int) -> dict[str, Any] | None:
    url = f"http://127.0.0.1:{port}"
    body = json.dumps({"text": "def f", "sampling_params": {"max_new_tokens": 1}}).encode()
    request = urllib.request.Request(f"{url}/generate", body, {"content-type": "application/json"})
    try:
        if not json.load(urllib.request.urlopen(request, timeout=10)).get("text"):
            return None
        info = json.load(urllib.request.urlopen(f"{url}/server_info", timeout=10))
    except (OSError, ValueError):
        return None
    return {name: value for name, value in info.items() if name != "internal_states" and not name.startswith("random")}


def main(unit: str, port: int) -> None:
    shown = ask("systemctl", "show", unit, *(f"-p{name}" for name in PROPERTIES))
    path = "/org/freedesktop/systemd1/unit/" + "".join(
        letter if letter.isalnum() else f"_{ord(letter):02x}" for letter in unit
    )
    started = ask(*ARGUMENTS, path, "org.freedesktop.systemd1.Service", "ExecStart")
    pid = int(ask("systemctl", "show", unit, "--value", "-pMainPID") or 0)
    processes = read_processes()
    state = {
        "files": read_files(),
        "unit": dict(line.split("=", 1) for line in shown.splitlines() if "=" in line),
        "start_command": [entry[1] for entry in json.loads(started)["data"]] if started else [],
        "main_pid": pid,
        "invocation": ask("systemctl", "show", unit, "--value", "-pInvocationID").strip(),
        "command": next((p["command"] for p in processes if p["pid"] == pid), []),
        "environment": read_environment(pid) if pid else {},
        "processes": processes,
        "our_units": sorted(
            line.split()[0]
            for line in ask("systemctl", "list-units", "--all", "--plain", "--no-legend", "autotune*").splitlines()
        ),
        "gpu": ask("nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits").splitlines(),
        "server": read_server(port),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }
    print(json.dumps(state))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
