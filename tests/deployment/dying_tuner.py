"""A tuner that starts a server with stubborn descendants, says who lives, and waits to be killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from autotune.deployment.local import LocalDeployment
from autotune.deployment.process import find_listener, find_tree
from tests.deployment.processes import small_server


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    deployment = LocalDeployment(
        baseline=small_server(port, "--budget", "1"),
        host="127.0.0.1",
        port=port,
        folder=folder,
        stop_timeout_s=5,
        orphan_patience_s=0.2,
    )
    with deployment:
        deployment.stop()
        pid = deployment.start(small_server(port, "--stubborn", "--descendants"), folder / "boot.log")
        while find_listener("127.0.0.1", port) is None or len(find_tree(pid)) < 3:
            time.sleep(0.01)
        child = deployment._child
        assert child is not None
        assert child.guard_identity is not None
        print(child.guard_identity.pid, *(item.pid for item in find_tree(pid)), flush=True)
        time.sleep(1000)


if __name__ == "__main__":
    main()
