"""A real server process of a tiny random model, for tests of the HTTP surface."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

START_TIMEOUT_S = 120.0
"""Generous: importing torch takes seconds, and many of them on a busy machine."""

ENTRY = "from autotune.cli.serve import command; command()"


@dataclass
class ServerProcess:
    """A started server: its process, address and log."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def status(self, path: str = "/health") -> int | None:
        """Status of one GET; ``None`` when nobody listens."""
        with new_client(self.url) as client:
            try:
                return client.get(path).status_code
            except httpx.ConnectError:
                return None

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.status() != 200:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def engine_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        (pid,) = children.split()
        return int(pid)

    def stop(self, patience_s: float = 30.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience_s)


def new_client(url: str) -> httpx.Client:
    """A client that starts quickly: it reads no certificates, which a loopback address does not need."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.Client(base_url=url, timeout=60, verify=False, trust_env=False, limits=limits)  # noqa: S501


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def launch(log_path: Path, *flags: str, environment: dict[str, str] | None = None) -> ServerProcess:
    """Start a server without waiting for it."""
    port = free_port()
    command = [sys.executable, "-c", ENTRY, "--port", str(port), "--cpu-threads", "1", *flags]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
        )
    return ServerProcess(process, port, log_path)


@contextlib.contextmanager
def running(log_path: Path, *flags: str, environment: dict[str, str] | None = None) -> Iterator[ServerProcess]:
    """Start a server, wait until it is ready, and end it in any case."""
    server = launch(log_path, *flags, environment=environment)
    try:
        server.wait_until_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition: Callable[[], bool], patience_s: float = 30.0) -> None:
    """Poll until a condition holds; for what another process does."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
