"""Which other units go down with a service, and how do they come back? systemd stops them; starting it again does not.

A router that says ``Requires=`` or ``BindsTo=`` of the service is stopped by each stop of the service, and by nothing
started again, except by a restart in one command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.host_files import Runner
from autotune.deployment.systemd_away import ask_systemd
from autotune.errors import SystemdError

STOPPED_BY: Final = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
"""Properties of a unit that name those which its stop stops too (systemd.unit(5)); an old systemd lacks the last."""

_UP: Final = frozenset({"active", "activating", "reloading"})
_TIMEOUT_S: Final = 30.0


def find_dependants(host: Host, unit: str) -> tuple[str, ...]:
    """Return the units that run and that a stop of a service would stop too, directly or through others, nearest first.

    Raises:
        SystemdError: systemd does not say.
    """
    found: dict[str, None] = {}
    seen = {unit}
    layer: tuple[str, ...] = (unit,)
    while layer:
        shown = _show(host, layer)
        found |= dict.fromkeys(name for name in layer if name != unit and shown[name]["ActiveState"] in _UP)
        named = (name for about in shown.values() for key in STOPPED_BY for name in about.get(key, "").split())
        layer = tuple(name for name in dict.fromkeys(named) if name not in seen)
        seen |= {*layer}
    return tuple(found)


def find_missing(host: Host, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of some units that do not run.

    Raises:
        SystemdError: systemd does not say.
    """
    return tuple(name for name, about in _show(host, names).items() if about["ActiveState"] not in _UP) if names else ()


def start_dependants(host: Host, run_as_root: Runner, names: Sequence[str], *, is_service_up: bool) -> None:
    """Ask systemd to start those of some units that do not run; whether they come up is another question.

    Args:
        host: asked which of them run.
        run_as_root: who starts them.
        names: what ran before the service was stopped.
        is_service_up: whether the service runs; else nothing is started that would start it.

    Raises:
        SystemdError: systemd does not say which of them run.
    """
    missing = find_missing(host, names)
    # A target would start whatever it wants, also what somebody has stopped on purpose.
    alone = [name for name in missing if name.endswith(".target") or not is_service_up]
    for mode, wanted in (
        ("replace", [name for name in missing if name not in alone]),
        ("ignore-dependencies", alone),
    ):
        if wanted:
            command = ("systemctl", "start", "--no-block", "--no-ask-password", f"--job-mode={mode}", "--", *wanted)
            run_as_root(command, is_idempotent=True)


def _show(host: Host, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return state and relations of units, by the names that were asked."""
    options = [f"--property={key}" for key in ("Id", "ActiveState", *STOPPED_BY)]
    command = ("systemctl", "show", *options, "--", *names)
    output = host.expect(command, ask_systemd(host, command, timeout_s=_TIMEOUT_S))
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in output.text.split("\n\n")]
    if len(blocks) != len(names) or any("ActiveState" not in block for block in blocks):
        raise SystemdError(f"systemctl does not say how {', '.join(names)} stand", where=host.name)
    return dict(zip(names, blocks, strict=True))
