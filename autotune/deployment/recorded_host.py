"""Which commands change a host, and what would they change? Recorded while they run, or instead of running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from autotune.deployment.host import CommandOutput, Host
from autotune.deployment.lease import unfence

_READS: Final = frozenset(
    {"busctl", "cat", "find", "head", "id", "nvidia-smi", "rocm-smi", "ss", "stat", "systemd-analyze", "test", "uname"}
)
_SYSTEMCTL_READS: Final = frozenset({"show", "cat", "status", "is-active", "is-enabled", "list-units", "list-jobs"})
_SUDO: Final = ("sudo", "-n", "--")


@dataclass(frozen=True, slots=True)
class ChangingCommand:
    """A command that changes something on a host.

    Attributes:
        command: program and arguments, as root has them.
        stdin: what it reads.
        is_fenced: whether it runs only while the lease is ours.
    """

    command: tuple[str, ...]
    stdin: bytes
    is_fenced: bool


class RecordedHost(Host):
    """A host that keeps a list of the changing commands; reads go through unseen.

    A command counts as changing unless it is known to read only.

    Args:
        host: where commands run.

    Attributes:
        changes: what was asked for so far.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.name = host.name
        self.changes: list[ChangingCommand] = []

    def __enter__(self) -> Self:
        """Connect."""
        self.host.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self.host.__exit__(kind, error, trace)

    @property
    def user_id(self) -> int:
        """The user id that commands run as on the machine."""
        return self.host.user_id

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        """Run one command; a changing one is recorded first."""
        plain = unfence(command)
        as_root = plain[len(_SUDO) :] if plain[: len(_SUDO)] == _SUDO else plain
        if is_read(as_root):
            return self.answer(as_root, command, timeout_s)
        change = ChangingCommand(as_root, stdin, plain != tuple(command))
        self.changes.append(change)
        return self.change(change, command, timeout_s, is_idempotent=is_idempotent)

    def answer(self, _plain: tuple[str, ...], command: Sequence[str], timeout_s: float) -> CommandOutput:
        """Answer a command that only reads: run it."""
        return self.host.run(command, timeout_s=timeout_s, is_idempotent=True)

    def change(
        self, change: ChangingCommand, command: Sequence[str], timeout_s: float, *, is_idempotent: bool
    ) -> CommandOutput:
        """Answer a command that changes something: run it."""
        return self.host.run(command, stdin=change.stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)


def is_read(command: Sequence[str]) -> bool:
    """Whether a command is known to change nothing.

    >>> [is_read(words.split()) for words in ("systemctl show x", "systemctl stop x", "rm x", "find / -delete")]
    [True, False, False, False]
    """
    if not command:
        return False
    program, *words = command
    if program == "systemctl":
        return bool(words) and words[0] in _SYSTEMCTL_READS
    if program == "journalctl":
        return not any(word.startswith(("--rotate", "--vacuum", "--flush", "--relinquish")) for word in words)
    if program == "busctl":
        return "get-property" in words
    if program == "find":
        return not {"-delete", "-execdir", "-ok", "-fprint"} & set(words) and not (
            "-exec" in words and words[words.index("-exec") + 1] != "cat"
        )
    return program in _READS


class RehearsedHost(RecordedHost):
    """A host on which nothing is changed: changing commands are recorded, and what is read afterwards answers as if.

    Files that were written, moved or removed read so, and the service stands as it was told to. All else is asked of
    the real host.

    Args:
        host: what is read of it.
        unit: the service that is rehearsed.
    """

    def __init__(self, host: Host, unit: str) -> None:
        super().__init__(host)
        self._unit = unit
        self._files: dict[str, bytes | None] = {}
        self._is_up: bool | None = None
        self._starts = 0

    def change(
        self, change: ChangingCommand, command: Sequence[str], timeout_s: float, *, is_idempotent: bool
    ) -> CommandOutput:
        """Do as if it had been run and had succeeded."""
        del command, timeout_s, is_idempotent
        program, *words = change.command
        operands = words[words.index("--") + 1 :] if "--" in words else [word for word in words if word[:1] != "-"]
        if program == "install" and len(operands) == 2:
            source, target = operands
            self._files[target] = change.stdin if source == "/dev/stdin" else self._files.get(source)
        elif program == "mv" and len(operands) == 2:
            self._files[operands[1]] = self._files.get(operands[0])
            self._files[operands[0]] = None
        elif program == "rm":
            below = tuple(f"{path}/" for path in operands)
            self._files |= {path: None for path in self._files if path.startswith(below)}
            self._files |= dict.fromkeys(operands)
        elif program == "systemctl" and self._unit in operands and words[0] in {"start", "stop", "restart"}:
            self._is_up = words[0] != "stop"
            self._starts += self._is_up
        return CommandOutput(0, b"", b"")

    def answer(self, plain: tuple[str, ...], command: Sequence[str], timeout_s: float) -> CommandOutput:
        """Answer a reading command from what was rehearsed, or from the host."""
        program, *words = plain
        path = words[-1] if words else ""
        if program == "cat" and path in self._files:
            content = self._files[path]
            missing = f"cat: {path}: No such file or directory\n".encode()
            return CommandOutput(1, b"", missing) if content is None else CommandOutput(0, content, b"")
        if self._is_up is False and program in {"ss", "find"}:
            return CommandOutput(0, b"", b"")  # no process of the service, and nobody on its port
        output = super().answer(plain, command, timeout_s)
        if self._is_up is not None and program == "systemctl" and words[0] == "show" and path == self._unit:
            return CommandOutput(output.exit_code, self._restate(output.text).encode(), output.stderr)
        return output

    def _restate(self, text: str) -> str:
        """Let the service stand as it was told to."""
        if self._is_up:
            known = {"ActiveState": "active", "SubState": "running"}
        else:
            known = {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0", "ControlGroup": ""}
        known |= {"Result": "success", "NRestarts": "0"}
        if self._starts:  # a service that has stopped keeps the id of its last start
            known["InvocationID"] = f"{self._starts:032x}"
        lines = (line.partition("=") for line in text.splitlines())
        return "".join(f"{name}{equals}{known.get(name, value)}\n" for name, equals, value in lines)
