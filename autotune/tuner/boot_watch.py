"""What do the GPUs do while a boot is measured? Looked at every few seconds, beside the measurement."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from autotune.deployment.gpu_activity import GpuSample, summarise
from autotune.errors import HostError
from autotune.trial import GpuActivity

PERIOD_S: Final = 10.0
"""Between two looks: a look costs the host some 50 ms of one core."""


class BootWatch:
    """Looks again and again until it is left; a host without GPUs is looked at once.

    A host that cannot be asked any more is left alone: whoever drives it will meet the same error, and explain it.

    Args:
        sample: looks at every GPU now; may raise HostError.
        period_s: between two looks.
    """

    def __init__(self, sample: Callable[[], tuple[GpuSample, ...]], period_s: float = PERIOD_S) -> None:
        self._sample = sample
        self._period_s = period_s
        self._samples: list[GpuSample] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpu watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; a look that is under way is not waited for."""
        self._is_over.set()

    def activity(self) -> tuple[GpuActivity, ...]:
        """Return what each GPU did so far."""
        return summarise(tuple(self._samples))

    def wait(self) -> None:
        """Wait until nothing is looked at any more, which on a host with GPUs is when this was left."""
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.is_set():
            try:
                samples = self._sample()
            except HostError:
                return
            if not samples:
                return
            self._samples.extend(samples)
            self._is_over.wait(self._period_s)
