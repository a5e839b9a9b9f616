"""A host whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from autotune.deployment.host import CommandOutput, Host


class ScriptedHost(Host):
    """Answers each command as a function says.

    Attributes:
        commands: what was asked, in order.
    """

    def __init__(self, answer: Callable[[Sequence[str], bytes], CommandOutput]) -> None:
        self.name = "scripted"
        self.commands: list[tuple[str, ...]] = []
        self._answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def user_id(self) -> int:
        return 0

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,  # noqa: ARG002  # time does not pass here
        is_idempotent: bool = False,  # noqa: ARG002  # nor is a connection lost
    ) -> CommandOutput:
        self.commands.append(tuple(command))
        return self._answer(command, stdin)
