"""How good were the model's predictions? Each speed against what was expected before its boot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autotune.baseline import pool_baseline
from autotune.objectives import CONCURRENCIES
from autotune.sampling.base import History
from autotune.sampling.greybox.boots import read_boots
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.model import fit_speeds
from autotune.sampling.greybox.one_thread import one_thread
from autotune.search_space import SearchSpace

_WITHIN: Final = 1.96


@dataclass(frozen=True, slots=True)
class Foresight:
    """One speed as it was expected before its boot, and as it was measured then.

    Attributes:
        trial: number of the trial.
        concurrency: of the speed.
        expected_tokens_per_s: median of what was expected.
        measured_tokens_per_s: what was measured.
        deviation: of the log that was expected, noise between boots included.
        surprise: log of measured over expected, in deviations.
    """

    trial: int
    concurrency: int
    expected_tokens_per_s: float
    measured_tokens_per_s: float
    deviation: float
    surprise: float

    @property
    def is_within(self) -> bool:
        """Whether it was measured within the 95 % interval of what was expected."""
        return abs(self.surprise) <= _WITHIN


@one_thread()
def look_back(history: History, space: SearchSpace) -> tuple[Foresight, ...]:
    """Return every speed of every configuration at its first boot that could be expected from the boots before it.

    Each expectation comes from a model fitted to the earlier trials alone, so none has seen what it is compared with.
    """
    encoding = Encoding(space)
    seen: set[int] = set()
    found = []
    for boot in read_boots(history, encoding):
        earlier = tuple(trial for trial in history.trials if trial.number < boot.trial)
        before = replace(history, trials=earlier, baseline=pool_baseline(earlier, history.settings))
        is_first = boot.row not in seen
        seen.add(boot.row)
        model = fit_speeds(read_boots(before, encoding), history.evidence, encoding) if is_first else None
        if model is None:
            continue
        known = model.forecast(np.array([boot.row], dtype=np.intp))
        for axis, concurrency in enumerate(CONCURRENCIES):
            log_speed = boot.log_speeds[axis]
            if log_speed is not None:
                own = math.hypot(boot.deviations[axis], boot.accept_deviation)
                width = math.hypot(float(known.deviation[0, axis]), model.noise[axis], own)
                expected = float(known.mean[0, axis])
                found.append(
                    Foresight(
                        boot.trial,
                        concurrency,
                        math.exp(expected),
                        math.exp(log_speed),
                        width,
                        (log_speed - expected) / width,
                    )
                )
    return tuple(found)
