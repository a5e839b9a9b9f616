"""How do figures of an imaginary machine differ from the truth? Seeded: the same boot of a night errs alike, whoever asked for it.

All errors are normal, on logs of speeds. Boots err by a part that all their cells share and by one for each concurrency, of
equal variance; the contexts of one concurrency err alike, so the mean over them errs as much as one of them. The machine
drifts slowly through the night, rounds of the same prompts differ, and prompts differ from each other: the same ones in every
boot, and a little in what they gain by a configuration.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from autotune.trial import Cell

_DRIFT_MEMORY: Final = 0.9
"""Correlation of the drift of one boot with that of the next."""

_CANARY_SHARE: Final = 0.3
"""Standard deviation of a canary around the drift, as a share of that between boots: prefill is steadier than decoding."""


@dataclass(frozen=True, slots=True)
class NoiseSettings:
    """Standard deviations of logs, so 0.02 is two per cent.

    Attributes:
        between: of what boots of one configuration measure at one concurrency, drift left out.
        inside: of one round of a cell around the mean of its boot.
        drift: of the machine's own speed over many nights; what one night sees of it is less.
        prompts: of the speeds of prompts, the same in every boot.
        interaction: of what prompts gain differently by a configuration.
    """

    between: float = 0.02
    inside: float = 0.01
    drift: float = 0.005
    prompts: float = 0.15
    interaction: float = 0.02


@dataclass(frozen=True, slots=True)
class BootId:
    """Which boot of a night.

    Attributes:
        number: results that the night had before it, so that a boot which was cut off and is repeated errs as before.
        attempt: starts of the server since then; 0 is a server that was found running.
    """

    number: int
    attempt: int


class NightNoise:
    """The errors of one night.

    Args:
        settings: how large.
        seed: of the night.
    """

    def __init__(self, settings: NoiseSettings, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        self._drifts: list[float] = []

    def of_boot(self, boot: BootId, concurrency: int) -> float:
        """Return by how much the log speed of one concurrency is off in a boot, drift included."""
        shared = self._draw(boot, "shared").gauss(0, 1)
        own = self._draw(boot, concurrency).gauss(0, 1)
        return self._settings.between * (shared + own) / math.sqrt(2) + self.of_drift(boot)

    def of_drift(self, boot: BootId) -> float:
        """Return by how much the machine itself is faster than usual, by the log."""
        while len(self._drifts) <= boot.number:
            step = self._draw("drift", len(self._drifts)).gauss(0, self._settings.drift)
            if self._drifts:
                step = _DRIFT_MEMORY * self._drifts[-1] + math.sqrt(1 - _DRIFT_MEMORY**2) * step
            self._drifts.append(step)
        return self._drifts[boot.number]

    def of_canary(self, boot: BootId, hearing: int) -> float:
        """Return by how much a canary is off, by the log: it hears the drift."""
        deviation = _CANARY_SHARE * self._settings.between
        return self.of_drift(boot) + self._draw(boot, "canary", hearing).gauss(0, deviation)

    def of_round(self, boot: BootId, cell: Cell, number: int) -> float:
        """Return by how much one round of a cell is off the mean of its boot."""
        return self._draw(boot, cell.name, number).gauss(0, self._settings.inside)

    def of_prompts(self, boot: BootId, cell: Cell, key: str, count: int) -> list[float]:
        """Return how the log speeds of the prompts of a cell differ from their mean; they add up to 0.

        Args:
            boot: which boot.
            cell: which cell.
            key: of the configuration.
            count: how many prompts.
        """
        parts = (
            (self._draw("prompts", cell.name), self._settings.prompts),
            (self._draw("gains", cell.name, key), self._settings.interaction),
            (self._draw("requests", boot, cell.name), self._settings.inside),
        )
        values = [math.fsum(rng.gauss(0, deviation) for rng, deviation in parts) for _ in range(count)]
        mean = math.fsum(values) / count
        return [value - mean for value in values]

    def draw_of(self, *names: object) -> random.Random:
        """Return a generator of its own for whatever else is left to chance."""
        return self._draw("else", *names)

    def _draw(self, *names: object) -> random.Random:
        return random.Random(f"{self._seed}:{names!r}")  # noqa: S311  # chance, not secrecy
