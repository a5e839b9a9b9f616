"""Small files on a host: read, replaced in one step, removed; with nothing but commands that sudo can allow one by one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

from autotune.deployment.host import CommandOutput, Host
from autotune.errors import HostError

_MISSING = b"No such file or directory"


class Runner(Protocol):
    """Runs one command as root: ``host.run_as_root``, or something that checks a lease before it does."""

    def __call__(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        """Run a command; see :meth:`autotune.deployment.host.Host.run_as_root`."""


def read_file(host: Host, path: str) -> bytes | None:
    """Return the bytes of a file, read as root where this user may not; ``None`` when there is none.

    Raises:
        HostError: it cannot be read for another reason, or is longer than what a host keeps of an output.
    """
    command = ("cat", "--", path)
    output = host.run(command, is_idempotent=True)
    if output.exit_code != 0 and not output.stderr.rstrip().endswith(_MISSING):
        output = host.run_as_root(command, is_idempotent=True)
    if output.exit_code != 0 and output.stderr.rstrip().endswith(_MISSING):
        return None
    if output.exit_code != 0 or output.is_truncated:
        why = "it is too long" if output.is_truncated else output.complaint
        raise HostError(f"cannot read {path}: {why}", where=host.name)
    return output.stdout


def write_file(run_as_root: Runner, path: str, data: bytes, mode: int = 0o644) -> None:
    """Replace a file in one step: a reader sees the old bytes or the new ones, nothing between.

    The bytes travel over standard input, so no command line holds them. Its folder must exist.

    Args:
        run_as_root: who runs the commands.
        path: absolute.
        data: the whole content.
        mode: permission bits; the owner is root.

    Raises:
        HostError: a command failed; the old file is still there.
    """
    new = f"{path}.new"
    _expect(run_as_root, ("install", "-m", f"{mode:04o}", "--", "/dev/stdin", new), f"cannot write {path}", stdin=data)
    _expect(run_as_root, ("mv", "-f", "-T", "--", new, path), f"cannot write {path}")


def remove_file(run_as_root: Runner, path: str) -> None:
    """Remove a file; one that is not there is no error.

    Raises:
        HostError: it is still there.
    """
    _expect(run_as_root, ("rm", "-f", "--", path), f"cannot remove {path}")


def make_folder(run_as_root: Runner, path: str, mode: int = 0o755) -> None:
    """Create a folder and those above it; one that exists is left as it is.

    Raises:
        HostError: it cannot be created.
    """
    _expect(run_as_root, ("mkdir", "-p", "-m", f"{mode:04o}", "--", path), f"cannot create the folder {path}")


def _expect(run_as_root: Runner, command: tuple[str, ...], problem: str, *, stdin: bytes = b"") -> None:
    """Run a command that has to succeed; each of them may run twice."""
    output = run_as_root(command, stdin=stdin, is_idempotent=True)
    if output.exit_code != 0:
        raise HostError(f"{problem}: {shlex.join(command)} says: {output.complaint}")
