"""Starts one process that outlives whoever asked for it, as it ran before: command, environment, folder, mask, output.

Executed as a script under ``python -I -S`` with a JSON object on standard input (``command``, ``environment``, ``cwd``,
``umask``, ``output``, ``errors``). Prints ``started PID`` or ``error TEXT``. The process has a session of its own and
no parent that waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn


def main() -> int:
    """Start what standard input describes."""
    request = json.load(sys.stdin)
    readable, writable = os.pipe2(os.O_CLOEXEC)
    process = os.fork()
    if process == 0:
        _become(request, writable)
    os.close(writable)
    with os.fdopen(readable, encoding="utf-8") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(process, 0)
        sys.stdout.write(f"error {failure}\n")
        return 1
    sys.stdout.write(f"started {process}\n")
    return 0


def _become(request: dict[str, Any], failure: int) -> NoReturn:
    """Turn the forked child into the process asked for, or write why not and end."""
    try:
        os.setsid()
        os.chdir(request["cwd"])
        mask = os.umask(0o077)
        outputs = [_open(request["output"]), _open(request["errors"])]
        os.umask(mask if request["umask"] is None else request["umask"])
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((empty, 0), (outputs[0], 1), (outputs[1], 2)):
            os.dup2(source, target)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(request["command"][0], request["command"], request["environment"])  # noqa: S606
    except OSError as error:
        os.write(failure, f"{error.strerror}: {error.filename or request['command'][0]}".encode())
    os._exit(127)


def _open(path: str) -> int:
    """Open a file for appending under a number that standard input and output do not have."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


if __name__ == "__main__":
    sys.exit(main())
