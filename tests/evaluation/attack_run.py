"""Runs every hostile program as whoever starts this, and says what came of it: ``python -m tests.evaluation.attack_run``.

Needs the standard library only, so that any interpreter that an ordinary user may run will do. Prints JSON: who ran it,
the layers that held, a line per program, and every trace that one of them left.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.problem import PROBLEMS_FILE, HiddenTest, Problem
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import Verdict
from tests.evaluation.attacks import ATTACKS, Attack

PROBLEM = Problem("f", "easy", "numbers", "", (HiddenTest("1", 2), HiddenTest("5", 6)))
SECRET = Problem("f", "easy", "numbers", "", (HiddenTest("1", 424242),))
RIGHT = "def f(x):\n    return x + 1\n"
LIMIT_S, MEMORY_BYTES = 2.0, 256 << 20
_SUBREAPER = 36


def main() -> None:
    os.environ["AUTOTUNE_CANARY"] = "canary"
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # an orphan becomes our child, and is seen
    with (
        tempfile.TemporaryDirectory(prefix="autotune-attack-") as folder,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as local,
    ):
        udp.bind(("127.0.0.1", tcp.getsockname()[1]))
        name = f"autotune-attack-{os.getpid()}"
        local.bind(f"\0{name}")
        local.listen()
        for listener in (tcp, udp, local):
            listener.setblocking(False)
        key = Path(folder) / "key"
        key.write_text("canary")
        words = {
            "PID": str(os.getpid()),
            "PORT": str(tcp.getsockname()[1]),
            "SOCKET": name,
            "FOLDER": folder,
            "PROBLEMS": str(PROBLEMS_FILE),
            "JUDGE": str(Path(sandbox_module.__file__)),
        }
        before = _take_stock(folder)
        sandbox = Sandbox(LIMIT_S, MEMORY_BYTES)
        layers = Sandbox(20.0, MEMORY_BYTES).check()
        programs = [(SECRET if "424242" in attack.code else PROBLEM, _aim(attack, words)) for attack in ATTACKS]
        verdicts = list(sandbox.judge_all(programs))
        after = Sandbox(20.0, MEMORY_BYTES).judge(PROBLEM, RIGHT)
        traces = [*_find_traces(key, before, folder), *_find_calls(tcp, udp, local)]
    if after.verdict is not Verdict.PASSED:
        traces.append(f"the judge no longer passes a right program: {after.reason}")
    json.dump(
        {
            "uid": os.getuid(),
            "layers": layers,
            "attacks": [
                [attack.name, result.verdict.value, result.reason]
                for attack, result in zip(ATTACKS, verdicts, strict=True)
            ],
            "traces": traces,
        },
        sys.stdout,
    )


def _aim(attack: Attack, words: dict[str, str]) -> str:
    program = attack.program
    for name, value in words.items():
        program = program.replace(f"@{name}@", value)
    return program


def _take_stock(folder: str) -> dict[str, object]:
    """What a program might have changed."""
    shared = Path("/proc/sysvipc/shm")
    return {
        "files": sorted(path.name for path in Path(folder).iterdir()),
        "host name": socket.gethostname(),
        "shared memory": len([line for line in shared.read_text().splitlines() if " 4242 " in line])
        if shared.exists()
        else 0,
        "bombs": sorted(
            place for place in ("/bomb", "/tmp/bomb", "/var/tmp/bomb", "/dev/shm/bomb") if Path(place).exists()
        ),
        "priority": os.nice(0),
    }


def _find_traces(key: Path, before: dict[str, object], folder: str) -> Iterator[str]:
    after = _take_stock(folder)
    yield from (f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name])
    if not key.exists() or key.read_text() != "canary" or key.stat().st_mode & 0o777 == 0o777:
        yield "the key was changed"
    deadline_s = time.monotonic() + 5
    while (left := _children()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    if left:
        yield f"processes are left: {left}"


def _children() -> list[str]:
    return [pid for thread in Path("/proc/self/task").iterdir() for pid in (thread / "children").read_text().split()]


def _find_calls(tcp: socket.socket, udp: socket.socket, local: socket.socket) -> Iterator[str]:
    for name, take in (("TCP", tcp.accept), ("UDP", lambda: udp.recv(1)), ("a local socket", local.accept)):
        try:
            take()
        except BlockingIOError:
            continue
        yield f"somebody called by {name}"


if __name__ == "__main__":
    main()
