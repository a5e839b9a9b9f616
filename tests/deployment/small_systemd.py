"""A host of files and one service, in memory: as much of systemd as taking, changing and restoring the service needs."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.deployment.host import CommandOutput
from autotune.deployment.lease import RUN_FOLDER, unfence
from tests.deployment.scripted_host import ScriptedHost

_OK = CommandOutput(0, b"", b"")


class SmallSystemd(ScriptedHost):
    """Keeps files, honours the fence of a lease, and starts and stops one service at once.

    Attributes:
        files: content by path.
        unit: name of the service.
        invocation: of the service's last start; empty before the first.
        is_up: whether it runs.
        is_there: whether systemd knows it.
        restoring: name of a service of the host's own restore that never ends, if there is one.
    """

    def __init__(self, unit: str, *, invocation: str = "i1") -> None:
        super().__init__(self.answer)
        self.unit = unit
        self.files = {"/proc/sys/kernel/random/boot_id": b"boot\n", "/etc/machine-id": b"machine\n"}
        self.invocation = invocation
        self.is_up = bool(invocation)
        self.is_there = True
        self.restoring: str | None = None
        self._starts = 1

    def answer(self, command: Sequence[str], stdin: bytes) -> CommandOutput:
        """Do what a command says."""
        plain = unfence(command)
        if plain != tuple(command) and not self._is_let_through(folder=command[5], token=command[6]):
            return CommandOutput(75, b"", b"")
        program, *words = plain
        operands = words[words.index("--") + 1 :] if "--" in words else [word for word in words if word[:1] != "-"]
        if program == "cat":
            data = self.files.get(operands[0])
            missing = f"cat: {operands[0]}: No such file or directory\n".encode()
            return CommandOutput(1, b"", missing) if data is None else CommandOutput(0, data, b"")
        if program == "systemctl":
            return self._control(words, operands)
        if program in {"install", "mv"}:
            source, target = operands[-2:]
            self.files[target] = stdin if source == "/dev/stdin" else self.files[source]
            if program == "mv":
                del self.files[source]
        elif program == "rm":
            gone = [
                path for path in self.files if any(path == name or path.startswith(f"{name}/") for name in operands)
            ]
            for path in gone:
                del self.files[path]
        elif program == "find" and RUN_FOLDER in words:
            return CommandOutput(0, "\n".join(path for path in self.files if path.endswith("/lease")).encode(), b"")
        elif program == "test":
            return CommandOutput(1, b"", b"")
        elif program == "nvidia-smi":
            return CommandOutput(127, b"", b"nvidia-smi: No such file or directory\n")
        return _OK

    def _is_let_through(self, *, folder: str, token: str) -> bool:
        if not token:
            return not any(path.endswith("/lease") for path in self.files)
        return self.files.get(f"{folder}/lease", b"").startswith(f"token={token}\n".encode())

    def _control(self, words: Sequence[str], operands: Sequence[str]) -> CommandOutput:
        if words[0] == "show" and operands == [self.unit]:
            return CommandOutput(0, self._show().encode(), b"")
        if words[0] == "show":
            return CommandOutput(0, b"active\n" if self.restoring in operands else b"inactive\n", b"")
        if self.unit in operands and words[0] == "start":
            self._starts += 1
            self.invocation = f"i{self._starts}"
            self.is_up = True
        elif self.unit in operands and words[0] == "stop":
            self.is_up = False
        return _OK

    def _show(self) -> str:
        state = ("active", "running") if self.is_up else ("inactive", "dead")
        properties = {
            "LoadState": "loaded" if self.is_there else "not-found",
            "ActiveState": state[0],
            "SubState": state[1],
            "Result": "success",
            "NRestarts": 0,
            "MainPID": 7 if self.is_up else 0,
            "ExecMainCode": 0,
            "ExecMainStatus": 0,
            "ExecMainPID": 0,
            "InvocationID": self.invocation,
            "ControlGroup": "",
        }
        return "".join(f"{name}={value}\n" for name, value in properties.items())
