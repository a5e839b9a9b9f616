"""Which machine a study's service runs on."""

from __future__ import annotations

from autotune.deployment.host import Host
from autotune.deployment.local_host import LocalHost
from autotune.settings import DeploymentSettings


def open_host(deployment: DeploymentSettings) -> Host:
    """Return the host of a study; entering it connects.

    Raises:
        UserError: the destination cannot be one.
        SshError: ssh's configuration cannot be read.
    """
    if deployment.host is None:
        return LocalHost()
    # Only here: a study of this machine needs no SSH library.
    from autotune.deployment.ssh import SshHost  # noqa: PLC0415

    return SshHost(deployment.host, config=deployment.ssh_config)
