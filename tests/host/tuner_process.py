"""A tuner as its user starts it: inside the lab over SSH as root or as a user with sudo, or on the host itself."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from tests.host.container import Container
from tests.host.lab import CHECKOUT, Lab

_CELL: Final = re.compile(r"trial (\d+): stage (\S+), (\S+):")


class Place(Enum):
    """Where the tuner runs and as whom it acts on the host."""

    ROOT = "root over ssh"
    """On another machine of the network, root on the host."""
    USER = "sudo user over ssh"
    """The same as an ordinary user with sudo."""
    ON_HOST = "on the host"
    """On the host itself, as root."""


class Tuner:
    """One ``autotune`` command and what it says, line by line.

    Attributes:
        lines: what was said so far, both streams.
    """

    def __init__(self, lab: Lab, host: Container, folder: Path, place: Place, arguments: Sequence[str]) -> None:
        """Start it in a folder, which is one of the host's own when it runs there."""
        self.lines: list[str] = []
        self._said = threading.Condition()
        program = [f"{sys.prefix}/bin/python", "-m", "autotune", *arguments]
        variables = {
            "COLUMNS": "200",
            "OMP_NUM_THREADS": "1",
            "HOME": str(folder),
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if place is Place.ON_HOST:
            words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
            line = f"mkdir -p {folder} && cd {folder} && exec env {words} {shlex.join(program)}"
            command = lab.enter(["ssh", "-F", str(lab.ssh_config(host)), host.alias(), line])
            folder = Path("/")
        else:
            command = lab.enter(["env", "--default-signal=INT,HUP", *program])  # whatever started the tests ignores
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """Everything that was said."""
        return "".join(self.lines)

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def has_said(self, words: str, times: int = 1) -> bool:
        """Whether so many lines hold these words."""
        return sum(words in line for line in list(self.lines)) >= times

    def wait_until_said(self, words: str, *, times: int = 1, timeout_s: float = 60.0) -> bool:
        """Wait for so many lines with these words; False when the process ends before, or time is over."""
        deadline = time.monotonic() + timeout_s
        with self._said:
            while not self.has_said(words, times):
                if self.has_ended and not self._reader.is_alive():
                    return False
                if not self._said.wait(min(max(deadline - time.monotonic(), 0.0), 0.2)) and time.monotonic() > deadline:
                    return False
        return True

    def find_cells(self) -> set[tuple[int, str]]:
        """Return trial and cell of everything that it said to have measured."""
        return {(int(found[1]), found[3]) for line in list(self.lines) if (found := _CELL.search(line))}

    def wait(self, timeout_s: float = 120.0) -> int:
        """Wait for its end; return the exit code, negative for a signal.

        Raises:
            TimeoutError: it does not end; with what it said.
        """
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the tuner does not end within {timeout_s:g} s: {self.text[-2000:]}") from None
        self._reader.join(5)
        return code

    def kill(self) -> None:
        """End it as the kernel does when memory is short: it cannot say or do anything any more."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def close(self) -> None:
        """End it if it still runs, and let go of its output."""
        if self.process.poll() is None:
            self.kill()
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        stream = self.process.stdout
        if stream is None:
            return
        for line in stream:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()


def run_tuner(
    lab: Lab, host: Container, folder: Path, place: Place, arguments: Sequence[str], timeout_s: float = 180.0
) -> tuple[int, str]:
    """Run one command to its end; return exit code and everything it said."""
    tuner = Tuner(lab, host, folder, place, arguments)
    try:
        code = tuner.wait(timeout_s)
    finally:
        tuner.close()
    return code, tuner.text
