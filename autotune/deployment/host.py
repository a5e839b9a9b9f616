"""A machine on which commands run: this one, or another one over SSH. What each of its answers means."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from autotune.errors import HostError, PermissionDenied

OUTPUT_LIMIT_BYTES: Final = 16 * 2**20
"""Most bytes that are kept of each output stream of one command; what comes after is read and dropped."""

PLAIN_OUTPUT: Final = {"LC_ALL": "C", "SYSTEMD_COLORS": "0"}
"""Variables of every command, as its output is parsed: a login shell may ask systemd for colours even in JSON."""

_WHO_AND_WHERE: Final = (
    'id -un || exit; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; for name in "$@"; do '
    'case $name in /*) printf "%s\\n" "$name";; *) command -v -- "$name" || printf "/usr/bin/%s\\n" "$name";; esac; done'
)
"""Prints the user, then the path of each program where sudo looks for it."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command that ended has left.

    Attributes:
        exit_code: 0 to 255; 128 + N when signal N ended it.
        stdout: its bytes, at most :data:`OUTPUT_LIMIT_BYTES`.
        stderr: the same.
        is_truncated: whether one of the streams was longer.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_truncated: bool = False

    @property
    def text(self) -> str:
        """Standard output as text; undecodable bytes are replaced."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def complaint(self) -> str:
        """What it said on standard error, or its last words on standard output, in one line."""
        said = self.stderr.decode("utf-8", errors="replace").strip() or self.text.strip()[-500:]
        return " ".join(said.split())[:500] or f"exit code {self.exit_code}"


class Host(ABC):
    """One machine. Use as a context manager: entering connects, leaving disconnects.

    Arguments are lists and reach the program word by word; no shell reads them unless a shell is what is called.
    Objects may be used from several threads.
    """

    name: str
    """For people: ``root@gpu1``, or ``this host``."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Connect.

        Raises:
            SshError: there is no way to the machine; the kind says why.
        """

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""

    @property
    @abstractmethod
    def user_id(self) -> int:
        """The user id that commands run as on the machine; 0 is root."""

    @abstractmethod
    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        is_idempotent: bool = False,
    ) -> CommandOutput:
        """Run one command to its end; any exit code is an answer, not an error.

        Args:
            command: program and arguments.
            stdin: what it reads; then end of file.
            timeout_s: when it has not ended by then, it is ended, on the machine too.
            is_idempotent: running it twice does no harm, so it is run again once when the connection is lost.

        Raises:
            ConnectionLostError: the connection is gone; whether the command ran is unknown.
            RemoteTimeout: the time was over.
        """

    def as_root(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command that runs as root: itself for root, behind ``sudo -n --`` for anybody else."""
        return tuple(command) if self.user_id == 0 else ("sudo", "-n", "--", *command)

    def run_as_root(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        """Run one command as root; else as :meth:`run`.

        Raises:
            PermissionDenied: sudo refuses this command, or asks for a password.
        """
        output = self.run(self.as_root(command), stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)
        self.check_sudo(command, output)
        return output

    def check_sudo(self, command: Sequence[str], output: CommandOutput) -> None:
        """See from its output whether sudo let a command run as root.

        Raises:
            PermissionDenied: it did not.
        """
        if self.user_id != 0 and output.exit_code == 1 and output.stderr.lstrip().startswith(b"sudo:"):
            raise PermissionDenied(
                f"sudo does not run {shlex.quote(command[0])} without a password: {output.complaint}",
                where=self.name,
                hint=f"allow it: a line `{self.find_sudo_rule(command[:1])}` made with visudo, or connect as root",
            )

    def find_sudo_rule(self, programs: Sequence[str]) -> str:
        """Return the line for sudoers that lets this user run programs as root, as far as the machine tells who and where.

        What it does not tell stands as ``USER`` and ``/usr/bin/PROGRAM``.
        """
        output = self.run(("sh", "-c", _WHO_AND_WHERE, "ask", *programs), is_idempotent=True)
        user, *paths = (output.text if output.exit_code == 0 else "").splitlines() or ["USER"]
        if len(paths) != len(programs):
            paths = [f"/usr/bin/{program}" for program in programs]
        return f"{user} ALL=(root) NOPASSWD: {', '.join(paths)}"

    def expect(self, command: Sequence[str], output: CommandOutput) -> CommandOutput:
        """Return the output of a command that has to succeed.

        Raises:
            HostError: its exit code is not 0.
        """
        if output.exit_code != 0:
            raise HostError(f"{shlex.join(command)} failed: {output.complaint}", where=self.name)
        return output
