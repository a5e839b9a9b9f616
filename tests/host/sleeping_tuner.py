"""A tuner that takes a lease, waits to be told, then tries to change something. Argument: a container's first process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import cast

from autotune.deployment.lease import Lease
from autotune.errors import AutotuneError
from tests.host.container import Container
from tests.host.inside_host import InsideHost


@dataclass
class Entrance:
    """All that is needed of a container to enter it."""

    init_pid: int
    name: str = "gpu1"


def main() -> None:
    host = InsideHost(cast("Container", Entrance(int(sys.argv[1]))))
    lease = Lease(host, "sglang-ddtree.service", lease_s=1, study="/studies/kimi")
    lease.acquire(b"unit=sglang-ddtree.service\nwas_up=no\nmade_folder=no\ndrop_in=/run/x.conf\ninvocations=\n")
    print("taken", flush=True)
    sys.stdin.readline()
    try:
        lease.run_as_root(["touch", "/run/must-not-be"])
    except AutotuneError as error:
        print(type(error).__name__, flush=True)
    else:
        print("changed it", flush=True)


if __name__ == "__main__":
    main()
