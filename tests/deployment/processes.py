"""Real processes for tests: free ports, the small server, waiting with a deadline."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autotune.deployment.process import find_listener
from autotune.servers.base import LaunchSpec

SMALL_SERVER = str(Path(__file__).with_name("small_server.py"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def small_server(port: int, *flags: str, environment: Mapping[str, str | None] | None = None) -> LaunchSpec:
    command = (sys.executable, SMALL_SERVER, *flags, "--host", "127.0.0.1", "--port", str(port))
    return LaunchSpec(command, environment or {})


def wait_until(is_so: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Wait for something that real processes do; fail when they do not."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def wait_for_port(port: int) -> int:
    wait_until(lambda: find_listener("127.0.0.1", port) is not None)
    listener = find_listener("127.0.0.1", port)
    assert listener is not None
    assert listener.pid is not None
    return listener.pid


@contextmanager
def running(launch: LaunchSpec, cwd: Path, *, listens: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of the test's own, as a user would have started it."""
    environment = {**os.environ, **{name: value for name, value in launch.environment.items() if value is not None}}
    with (cwd / "found.log").open("ab") as log:
        process = subprocess.Popen(
            launch.command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        if listens is not None:
            wait_for_port(listens)
        yield process
    finally:
        process.kill()
        process.wait()
