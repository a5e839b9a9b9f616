"""This machine as a host on which nothing needs root, with the folders of an apply in a place of the test's own."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.deployment.host import CommandOutput
from autotune.deployment.local_host import LocalHost


class PlainHost(LocalHost):
    """Commands of root run as whoever runs the tests.

    Attributes:
        asked: the programs of all commands of root, in order.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run_as_root(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        self.asked.append(command[0])
        return self.run(command, stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)
