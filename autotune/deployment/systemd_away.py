"""systemd starts itself anew while its services run on, and answers nobody for a moment: ask again then.

An upgrade of systemd or of the C library does so (``systemctl daemon-reexec``), in the middle of a night as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from autotune.deployment.host import CommandOutput, Host

_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
_AWAY: Final = (
    b"disconnected from message bus without replying",
    b"Failed to connect to bus: Connection refused",
    b"Failed to connect to bus: Connection reset",
    b"Transport endpoint is not connected",
    b"Connection reset by peer",
    b"Connection terminated",
)


def ask_systemd(host: Host, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
    """Run a command that asks systemd and changes nothing, again while systemd starts itself anew.

    Raises:
        SshError: the host cannot be reached.
    """
    return insist(lambda: host.run(command, timeout_s=timeout_s, is_idempotent=True))


def insist(run: Callable[[], CommandOutput]) -> CommandOutput:
    """Run a command that may be run twice, again while systemd starts itself anew; some seconds, then its words count."""
    for pause_s in _PAUSES_S:
        output = run()
        if output.exit_code == 0 or not any(words in output.stderr for words in _AWAY):
            return output
        time.sleep(pause_s)
    return run()
