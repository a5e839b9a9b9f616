"""Can the words of a service be read in its host's journal? Else nobody can say why a boot has failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from autotune.deployment.host import Host

_PROPERTIES: Final = ("StandardOutput", "StandardError", "LogNamespace")
_KEPT: Final = ("journal", "kmsg", "syslog")
_PLACES: Final = {"append": "a file", "file": "a file", "truncate": "a file", "null": "nowhere"}
_STORAGE: Final = re.compile(r"^[ \t]*Storage[ \t]*=[ \t]*(\w+)", re.MULTILINE)


def read_log_gap(host: Host, unit: str) -> str | None:
    """Ask a host why the journal lacks the log of a service; ``None`` when it should have it.

    Raises:
        HostError: systemd does not say how the service writes.
    """
    command = ("systemctl", "show", *(f"--property={key}" for key in _PROPERTIES), "--", unit)
    shown = host.expect(command, host.run(command, is_idempotent=True))
    settings = host.run(("systemd-analyze", "cat-config", "systemd/journald.conf"), is_idempotent=True)
    return find_log_gap(
        dict(line.partition("=")[::2] for line in shown.text.splitlines()),
        settings.text if settings.exit_code == 0 else "",
    )


def find_log_gap(shown: Mapping[str, str], journald: str = "") -> str | None:
    """Say why the journal lacks the log of a service; ``None`` when it should have it.

    Args:
        shown: properties of the unit.
        journald: all files of ``journald.conf``, later ones winning.
    """
    ways = {shown.get(key, "") for key in ("StandardOutput", "StandardError")} - {"inherit", ""}
    elsewhere = sorted(way for way in ways if not way.startswith(_KEPT))
    if elsewhere:
        places = " and ".join(dict.fromkeys(_PLACES.get(way.partition(":")[0], way) for way in elsewhere))
        part = "a part of " if len(elsewhere) < len(ways) else ""
        return f"{part}the service's log goes {'' if places == 'nowhere' else 'to '}{places}, not to the journal"
    if namespace := shown.get("LogNamespace"):
        return f"the service's log goes to a journal of its own (LogNamespace={namespace})"
    storage = _STORAGE.findall(journald)
    return "the host's journal keeps nothing (Storage=none)" if storage[-1:] == ["none"] else None
