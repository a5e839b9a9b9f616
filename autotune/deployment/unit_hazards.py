"""What in a service could disturb a night of trials although its flags can be exchanged? Pure, for people to read."""

from __future__ import annotations

import re
from typing import Final

from autotune.deployment.unit import Unit

_KILLS: Final = re.compile(r"(?<![\w-])(?:pkill|killall5?|kill|fuser\s+-\w*k\w*|skill)(?![\w-])")
_RECONFIGURES: Final = re.compile(
    r"(?<![\w-])(?:systemctl\s+(?!show|cat|status|is-)\S+|sed\s+(?:\S+\s+)*?(?:-\w*i|--in-place)\S*)(?![\w-])"
    r"|(?:/etc|/run|/usr/lib|/lib)/systemd/system(?![\w-])"
)


def find_hazards(unit: Unit) -> tuple[str, ...]:
    """Say what in a unit acts on more than its own server, one sentence each; empty when nothing does."""
    found: list[str] = []
    for setting, argv in unit.hooks:
        text = " ".join(argv)
        ends, changes = _KILLS.search(text), _RECONFIGURES.search(text)
        if ends:
            found.append(
                f"{setting}= runs {ends[0]} at every boot or stop ({text[:200]}): see that it ends nothing else"
            )
        if changes:
            found.append(f"{setting}= changes units or files ({text[:200]}): see that it undoes no drop-in")
    if unit.kill_mode not in {"control-group", "mixed"}:
        found.append(
            f"KillMode={unit.kill_mode} leaves processes behind that hold GPU memory: use control-group or mixed"
        )
    return tuple(found)
