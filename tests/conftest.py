"""How property tests run everywhere: the machine may be busy, so slow generation and slow examples are no failures.

And what several packages of tests share.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.systemd_oracle import ask_systemd

__all__ = ["ask_systemd"]

settings.register_profile("shared_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared_machine")
