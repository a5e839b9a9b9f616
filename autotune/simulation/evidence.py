"""What would a profile boot have told of a surface, with an error of a chosen size?"""

from __future__ import annotations

import math
import random

from autotune.objectives import CONCURRENCIES, expected_cells, weight
from autotune.sampling.base import AcceptLengthEvidence
from autotune.simulation.surface import Surface


def evidence_of(
    surface: Surface, *, common_sd: float = 0.03, own_sd: float = 0.01, seed: int = 0
) -> tuple[AcceptLengthEvidence, ...]:
    """Return the accept length of every configuration that speculates and serves, with lognormal errors.

    A real profile answers for the study's prompts, so what texts do to it is common to all configurations; gaps of its log
    and drafts of another block are not. The accept length is the weighted geometric mean over the contexts of the busiest
    cells, as :func:`autotune.replay.evidence.replay` pools it.

    Args:
        surface: whose truth is told.
        common_sd: standard deviation of the error of the log that all configurations share.
        own_sd: the same of each configuration.
        seed: of the errors; each configuration has its own whatever the others are.
    """
    cells = [cell for cell in expected_cells(surface.settings) if cell.concurrency == max(CONCURRENCIES)]
    weights = [weight(cell, surface.settings) for cell in cells]
    common = random.Random(f"{seed}:common").gauss(0.0, common_sd)  # noqa: S311  # chance, not secrecy
    evidence = []
    for configuration in surface.space.configurations:
        if surface.find_obstacle(configuration) is not None:
            continue
        lengths = [surface.truth(configuration, cell).accept_length for cell in cells]
        known = [length for length in lengths if length is not None]
        if len(known) < len(cells):
            continue
        log = math.fsum(share * math.log(length) for share, length in zip(weights, known, strict=True)) / sum(weights)
        own = random.Random(f"{seed}:{surface.space.key(configuration)}").gauss(0.0, own_sd)  # noqa: S311  # same
        # Nothing is accepted that was not there: a step makes at least its own token.
        accept_length = max(math.exp(log + common + own), 1.0)
        deviation = math.hypot(common_sd, own_sd)
        evidence.append(
            AcceptLengthEvidence(configuration, accept_length, deviation, "drafts replayed in a simulation")
        )
    return tuple(evidence)
