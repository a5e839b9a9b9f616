"""``autotune`` that is killed, as by the kernel, right before its N-th command that changes the host.

Usage: ``python -m tests.host.dying_apply N WORD...``
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from autotune.cli import main
from autotune.deployment.host import CommandOutput
from autotune.deployment.lease import Lease

_COUNTED = 0


def _die_at(number: int) -> None:
    """Let the process die in place of its N-th changing command."""
    run_as_root = Lease.run_as_root

    def counted(self: Lease, *words: Any, **options: Any) -> CommandOutput:
        global _COUNTED  # noqa: PLW0603  # one process, one count
        _COUNTED += 1
        if number == _COUNTED:
            os.kill(os.getpid(), signal.SIGKILL)
        return run_as_root(self, *words, **options)

    Lease.run_as_root = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    _die_at(int(sys.argv[1]))
    main(sys.argv[2:])
