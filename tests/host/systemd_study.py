"""A deployment on a test host, in process: the study, what it starts, and the deployment as a tuner would open it."""

from __future__ import annotations

from pathlib import Path

from autotune.deployment.host import Host
from autotune.deployment.systemd import SystemdDeployment
from autotune.servers.base import LaunchSpec
from autotune.settings import StudySettings, parse_settings
from tests.host.service import BASELINE, PORT, UNIT

TUNED_FLAGS = {
    "--speculative-algorithm": True,
    "--speculative-ddtree-budget": True,
    "--speculative-draft-window-size": True,
}

_STUDY = """
name = "night"
[server]
host = "0.0.0.0"
port = {port}
stop_timeout_s = {stop_timeout_s}
ready_timeout_s = 60
[deployment]
kind = "systemd"
unit = "{unit}"
lease_s = {lease_s}
[baseline]
budget = 16
topk = 4
window = "none"
[benchmark]
[[benchmark.stages]]
name = "all"
cells = [{{ context = 60, concurrency = 1 }}, {{ context = 60, concurrency = 32 }}]
"""


def launch(*flags: str, topk: str | None = None) -> LaunchSpec:
    """Return the launch of a configuration."""
    command = ("python3", "-m", "sglang.launch_server", *flags, "--host", "0.0.0.0", "--port", str(PORT))
    return LaunchSpec(command, {"SGLANG_DDTREE_MAX_TOPK": topk}, flags)


BASELINE_LAUNCH = launch(*BASELINE, topk="4")
TRIAL = launch("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8", topk="2")


def study(*, lease_s: float = 600.0, stop_timeout_s: float = 10.0, unit: str = UNIT) -> StudySettings:
    """Return a study of the host's service."""
    text = _STUDY.format(port=PORT, unit=unit, lease_s=float(lease_s), stop_timeout_s=float(stop_timeout_s))
    return parse_settings(text, "the test")


def open_systemd(
    host: Host, folder: Path, *, lease_s: float = 600.0, stop_timeout_s: float = 10.0, unit: str = UNIT
) -> SystemdDeployment:
    """Return the deployment, not entered yet."""
    return SystemdDeployment(
        host,
        settings=study(lease_s=lease_s, stop_timeout_s=stop_timeout_s, unit=unit),
        baseline=BASELINE_LAUNCH,
        tuned_flags=TUNED_FLAGS,
        folder=folder,
    )
