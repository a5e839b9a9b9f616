"""How long does a proposal take after so many trials?"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import takewhile

from autotune.baseline import pool_baseline
from autotune.sampling.base import History
from autotune.simulation.compared_night import NOISE
from autotune.simulation.method import Method
from autotune.simulation.night import simulate_night
from autotune.simulation.regret import is_counted
from autotune.simulation.sequence import SequenceSampler, draw_order
from autotune.simulation.surface import Surface
from autotune.study_view import StudyView

_REPEATS = 3


def draw_study(surface: Surface, trials: int) -> StudyView:
    """Return a simulated study with so many trials, drawn at random and measured to their end."""
    order = SequenceSampler(draw_order(surface.space, 2 * trials, 1))
    return simulate_night(surface, order, 1, trials, noise=NOISE, pruning=False).view


def time_proposals(
    method: Method,
    surface: Surface,
    study: StudyView,
    counts: Sequence[int],
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, ...]:
    """Return the median time of a proposal after so many trials each, in seconds.

    A sampler is made anew for each proposal, as if the command had just been started.

    Args:
        method: who proposes.
        surface: whose study it is.
        study: with as many trials as the largest count.
        counts: trials.
        clock: seconds; the processor time of this process, so that what else runs does not count.
    """
    return tuple(_time(method, surface, _beginning(method, surface, study, count), clock) for count in counts)


def _time(method: Method, surface: Surface, history: History, clock: Callable[[], float]) -> float:
    times_s = []
    for repeat in range(_REPEATS):
        sampler = method.make_sampler(surface, len(history.trials))
        began_s = clock()
        sampler.propose(history, surface.space, (), random.Random(repeat))  # noqa: S311  # chance, not secrecy
        times_s.append(clock() - began_s)
    return statistics.median(times_s)


def _beginning(method: Method, surface: Surface, study: StudyView, count: int) -> History:
    """Return what is known after so many counted trials."""
    numbers = [trial.number for trial in study.trials if is_counted(trial)][:count]
    trials = tuple(takewhile(lambda trial: trial.number <= numbers[-1], study.trials))
    evidence = method.find_evidence(surface, study.settings.seed)
    return History(study.settings, trials, pool_baseline(trials, study.settings), evidence)
