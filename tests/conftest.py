"""How property tests run everywhere: the machine may be busy, so slow generation and slow examples are no failures.

And what several packages of tests share.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.systemd_oracle import ask_systemd

__all__ = ["ask_systemd"]

# Before numpy is loaded: two processes of as many threads each wait for each other over matrices of twenty rows.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("shared_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared_machine")
