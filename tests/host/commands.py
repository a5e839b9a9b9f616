"""How the lab runs system tools: to their end, output captured, a failure shown with what the tool said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandFailedError(Exception):
    """A command of the lab ended with an exit code that nobody expected."""


def run_command(
    command: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end.

    Args:
        command: program and arguments.
        stdin: what it reads.
        timeout_s: when it has not ended by then, it is killed.
        check: whether an exit code other than 0 is an error.
        environment: variables to set beside those of this process.

    Raises:
        CommandFailedError: the exit code is not 0, and that was asked for.
        subprocess.TimeoutExpired: the time was over.
    """
    done = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **environment} if environment else None,
    )
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", errors="replace").strip()
        words = " ".join(str(word) for word in command)
        raise CommandFailedError(f"{words} ended with {done.returncode}: {said}")
    return done
