"""Which service of a host may be meant by a name that is none of them?"""

from __future__ import annotations

import difflib
from typing import Final

from autotune.deployment.host import Host
from autotune.errors import UnitStateError

_LIST: Final = ("systemctl", "list-unit-files", "--type=service")
_NEAR: Final = 3
_CUTOFF: Final = 0.6


def missing_unit(host: Host, name: str) -> UnitStateError:
    """Return the error that says so and names the services of the host whose names are near.

    Args:
        host: it is asked for the names of its services.
        name: of a service that is not there, with ``.service``.
    """
    output = host.run((*_LIST, "--no-legend", "--no-pager", "--plain"), is_idempotent=True)
    near = find_near(output.text, name)
    return UnitStateError(
        f"there is no unit {name}" + (f", did you mean {' or '.join(near)}?" if near else ""),
        where=host.name,
        hint=f"`{' '.join(_LIST)}` lists the services of the host",
    )


def find_near(listed: str, name: str) -> tuple[str, ...]:
    r"""Return the services whose names are near one or hold it, nearest first, from what ``systemctl`` lists.

    >>> find_near("ssh.service enabled enabled\nsglang-ddtree.service enabled enabled\n", "sglang.service")
    ('sglang-ddtree.service',)
    """
    stems = [line.split()[0].removesuffix(".service") for line in listed.splitlines() if line.strip()]
    services = [stem for stem in stems if not stem.endswith("@")]  # a template is none until it has an instance
    wanted = name.removesuffix(".service")
    near = difflib.get_close_matches(wanted, services, n=_NEAR, cutoff=_CUTOFF)
    near += sorted(stem for stem in services if wanted in stem and stem not in near)
    return tuple(f"{stem}.service" for stem in near[:_NEAR])
