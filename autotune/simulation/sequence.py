"""Which configurations would somebody try who decides before the night begins? A grid, or a list drawn at random."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Final

from autotune.errors import SearchSpaceError
from autotune.sampling.base import History
from autotune.search_space import SearchSpace
from autotune.trial import Configuration, ParameterValue, TrialKind

_GOLDEN: Final = (math.sqrt(5) - 1) / 2


class SequenceSampler:
    """Proposes given configurations in their order, whatever was measured.

    Args:
        order: canonical configurations.
    """

    def __init__(self, order: Sequence[Configuration]) -> None:
        self._order = tuple(order)

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return the first configuration of the order that nobody has asked for yet; after the last, one at random."""
        asked = {space.key(trial.configuration) for trial in history.trials if trial.kind is not TrialKind.BASELINE}
        asked |= {space.key(configuration) for configuration in pending}
        for configuration in self._order:
            if space.key(configuration) not in asked:
                return configuration
        return rng.choice(space.configurations)


def draw_order(space: SearchSpace, count: int, seed: int) -> tuple[Configuration, ...]:
    """Draw distinct configurations uniformly; all of them, shuffled, when there are not so many."""
    rng = random.Random(f"order:{seed}")  # noqa: S311  # chance, not secrecy
    return tuple(rng.sample(space.configurations, min(count, space.size)))


def spread_grid(space: SearchSpace, count: int) -> tuple[Configuration, ...]:
    """Return a coarse factorial of at least ``count`` points, in an order of which every beginning is spread out.

    Levels are given, one after the other, to the parameter with the most values per level, until the product of all levels
    reaches ``count``. The levels of a parameter lie evenly from its first value to its last; a single one is in the middle.
    The points are then taken in steps of about 0.618 of their number, which comes round to each exactly once. Points that
    break a rule are left out, those that are the same on this server come once.
    """
    domains = [tuple(parameter.domain) for parameter in space.parameters.values()]
    levels = [1] * len(domains)
    while math.prod(levels) < min(count, math.prod(map(len, domains))):
        most = max(range(len(domains)), key=lambda index: (len(domains[index]) / levels[index], -index))
        levels[most] += 1
    chosen = [_spread(domain, number) for domain, number in zip(domains, levels, strict=True)]
    points = list(itertools.product(*chosen))
    stride = max(1, round(_GOLDEN * len(points)))
    while math.gcd(stride, len(points)) != 1:
        stride += 1
    found: dict[str, Configuration] = {}
    for index in range(len(points)):
        values = dict(zip(space.parameters, points[index * stride % len(points)], strict=True))
        try:
            configuration = space.canonicalise(values)
        except SearchSpaceError:
            continue
        found.setdefault(space.key(configuration), configuration)
    return tuple(found.values())


def _spread(domain: Sequence[ParameterValue], number: int) -> tuple[ParameterValue, ...]:
    """Return so many values that lie evenly from the first to the last; a single one is in the middle."""
    if number == 1:
        return (domain[len(domain) // 2],)
    last = len(domain) - 1
    return tuple(domain[round(index * last / (number - 1))] for index in range(number))
