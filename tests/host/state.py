"""Is the host as it was? A snapshot of everything that a night could leave behind, and what differs, in words."""

from __future__ import annotations

import base64
import difflib
import json
import re
import shlex
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.host.container import Container
from tests.host.service import PORT, UNIT

SETTLE_S: Final = 15.0
"""How long a host may take until logins and ends of processes are tidied away; nothing is waited for once it is so."""

_DESERIALIZED: Final = re.compile(r" --deserialize[= ]\d+")
"""What the command line of systemd says since it started itself anew; the number is another each time."""
_PROBE: Final = Path(__file__).with_name("state_probe.py")
_STAYING: Final = {"/run/autotune", "/run/systemd/transient"}
"""Empty folders that stay once they are made: the lock of all tuners, and systemd's own."""
_LOGINS: Final = "/run/systemd/transient/session-"
"""One for each login; that of a machine which vanished stays until sshd misses it."""
_PASSING_GROUPS: Final = ("session-", "user@", "user-runtime-dir@")


@dataclass(frozen=True, slots=True)
class FileState:
    """One file, folder or link.

    Attributes:
        kind: type bits, as ``stat.S_IFREG``.
        mode: permission bits.
        owner: user and group.
        content: bytes of a file, target of a link; empty for a folder.
    """

    kind: int
    mode: int
    owner: tuple[int, int]
    content: bytes


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """How a host stands.

    Attributes:
        files: units and drop-ins, sudo rules, and whatever the tuner keeps.
        unit: what systemd says of the service.
        start_command: the argument vectors of its ``ExecStart=``, resolved.
        main_pid: its process; 0 when there is none.
        invocation: id of this start.
        command: arguments of the running process.
        environment: its variables, without those that change with each start.
        processes: command and control group of every process, counted; logins are left out.
        our_units: units of systemd that the tuner made.
        gpu: what the stand-in ``nvidia-smi`` says of each GPU's memory.
        server: what the server says of itself after a generation; ``None`` when it makes none.
        boot: id of this boot of the host.
    """

    files: Mapping[str, FileState]
    unit: Mapping[str, str]
    start_command: tuple[tuple[str, ...], ...]
    main_pid: int
    invocation: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    processes: Mapping[str, int]
    our_units: tuple[str, ...]
    gpu: tuple[str, ...]
    server: Mapping[str, Any] | None
    boot: str


def snapshot(host: Container, unit: str = UNIT, port: int = PORT) -> HostSnapshot:
    """Look at everything on the host itself, changing nothing."""
    done = host.run(["/usr/bin/python3", "-", unit, str(port)], stdin=_PROBE.read_bytes())
    return parse_snapshot(json.loads(done.stdout))


def parse_snapshot(data: Mapping[str, Any]) -> HostSnapshot:
    """Read what the probe printed."""
    return HostSnapshot(
        files={path: _parse_file(entry) for path, entry in data["files"].items()},
        unit=data["unit"],
        start_command=tuple(tuple(words) for words in data["start_command"]),
        main_pid=data["main_pid"],
        invocation=data["invocation"],
        command=tuple(data["command"]),
        environment=data["environment"],
        processes=Counter(
            f"{_DESERIALIZED.sub('', shlex.join(process['command']))} in {process['group']}"
            for process in data["processes"]
            if not _is_passing(process["group"])
        ),
        our_units=tuple(data["our_units"]),
        gpu=tuple(data["gpu"]),
        server=data["server"],
        boot=data["boot"],
    )


def compare(before: HostSnapshot, after: HostSnapshot) -> list[str]:
    """Say in which respects a host is not as it was, one sentence each; a new start of the same service is none."""
    return [
        *_compare_files(before.files, after.files),
        *_compare_tables("systemd says", before.unit, after.unit),
        *_compare_values("the command of the unit", before.start_command, after.start_command),
        *_compare_values("the command that runs", shlex.join(before.command), shlex.join(after.command)),
        *_compare_tables("the server's environment:", before.environment, after.environment),
        *_compare_tables("processes:", before.processes, after.processes),
        *_compare_values("units of the tuner", before.our_units, after.our_units),
        *_compare_values("GPU memory", before.gpu, after.gpu),
        *_compare_server(before.server, after.server),
    ]


def wait_until_same(host: Container, before: HostSnapshot, patience_s: float = SETTLE_S) -> list[str]:
    """Compare until nothing differs any more, or patience ends: logins take a moment to be tidied away."""
    return wait_until_none(lambda: compare(before, snapshot(host)), patience_s)


def wait_until_none(find: Callable[[], list[str]], patience_s: float = SETTLE_S, *, pause_s: float = 0.1) -> list[str]:
    """Ask until nothing is found any more, or patience ends; return what was found last."""
    deadline = time.monotonic() + patience_s
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(pause_s)
    return found


def ignore_files(state: HostSnapshot, *folders: str) -> HostSnapshot:
    """Return a snapshot without some folders and the files below them."""
    kept = {
        path: file
        for path, file in state.files.items()
        if not any(Path(path).is_relative_to(folder) for folder in folders)
    }
    return replace(state, files=kept)


def _parse_file(entry: Mapping[str, Any]) -> FileState:
    content = entry.get("content", "")
    owner = entry["owner"]
    return FileState(
        kind=entry["kind"],
        mode=entry["mode"],
        owner=(owner[0], owner[1]),
        content=content.encode() if entry["kind"] == stat.S_IFLNK else base64.b64decode(content),
    )


def _is_passing(group: str) -> bool:
    """Whether processes of a control group come and go with logins."""
    return any(part.startswith(_PASSING_GROUPS) for part in group.split("/")) or group.startswith("/..")


def _compare_files(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> list[str]:
    said: list[str] = []
    for path in sorted({*before, *after} - _STAYING):
        if path.startswith(_LOGINS):
            continue
        old, new = before.get(path), after.get(path)
        if old is None and new is not None:
            said.append(f"{path} is new: {new.content[:200]!r}")
        elif new is None:
            said.append(f"{path} is gone")
        elif old is not None and old != new:
            if old.mode != new.mode:
                said.append(f"{path} has mode {new.mode:04o} instead of {old.mode:04o}")
            if old.owner != new.owner:
                said.append(f"{path} belongs to {new.owner} instead of {old.owner}")
            if (old.kind, old.content) != (new.kind, new.content):
                said.append(f"{path} changed: {_differ(old.content, new.content)}")
    return said


def _differ(before: bytes, after: bytes) -> str:
    lines = difflib.unified_diff(
        before.decode(errors="replace").splitlines(), after.decode(errors="replace").splitlines(), lineterm="", n=0
    )
    return " | ".join(line for line in lines if not line.startswith(("---", "+++", "@@"))) or "in its last bytes"


def _compare_tables(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{what} {name} is {after.get(name)!r} instead of {before.get(name)!r}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _compare_values(what: str, before: object, after: object) -> list[str]:
    return [] if before == after else [f"{what} is {after!r} instead of {before!r}"]


def _compare_server(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[str]:
    if before is None or after is None:
        now = "does not generate" if after is None else "generates"
        return [] if before == after else [f"the server {now} now"]
    return _compare_tables("the server says", before, after)
