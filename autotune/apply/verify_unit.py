"""What does ``systemd-analyze verify`` complain about? Asked before and after, because only new complaints are ours."""

from __future__ import annotations

from autotune.deployment.host import Host

_UNREADABLE = "Permission denied"
"""A drop-in that only root may read is no mistake; what systemd itself has loaded is compared anyway."""


def find_complaints(host: Host, unit: str) -> frozenset[str]:
    """Return the lines of its complaints about a unit and what belongs to it; none where the program is missing."""
    output = host.run(("systemd-analyze", "verify", "--man=no", "--", unit), timeout_s=60.0, is_idempotent=True)
    if output.exit_code in {126, 127}:
        return frozenset()
    lines = output.stderr.decode("utf-8", errors="replace").splitlines()
    return frozenset(line.strip() for line in lines if line.strip() and _UNREADABLE not in line)
