"""What would a whole night make of a surface? The real study and the real trial loop, on an imaginary machine."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from autotune.benchmark.precision import learn_precision
from autotune.errors import HostError
from autotune.events import Event, Observer
from autotune.objectives import expected_cells
from autotune.sampling.base import AcceptLengthEvidence, History, Sampler, StoppingSampler
from autotune.sampling.choice import make_sampler
from autotune.search_space import SearchSpace
from autotune.settings import ConfirmationSettings, SamplerSettings, StudySettings
from autotune.simulation.clock import SimulatedClock
from autotune.simulation.deployment import SimulatedDeployment
from autotune.simulation.dialect import SimulatedDialect
from autotune.simulation.faults import FaultSettings
from autotune.simulation.host import SimulatedHost
from autotune.simulation.meter import SimulatedBenchmark, SimulatedEvaluation
from autotune.simulation.noise import NightNoise, NoiseSettings
from autotune.simulation.surface import Surface
from autotune.study import Study, StudyView
from autotune.trial import Cell, Configuration, TrialRecord, TrialState
from autotune.tuner.interruption import Interruption
from autotune.tuner.limits import Limits
from autotune.tuner.meters import Meters
from autotune.tuner.night import Night

MAX_COMMANDS: Final = 20
"""Commands of one night at most: each ends by a fault of the machine, and the next goes on."""

_MEMORY_FOLDER: Final = Path("/dev/shm")  # noqa: S108  # each night has a folder of its own below it
"""A study is flushed to its disk hundreds of times; that of a simulated night need not outlive the machine."""


@dataclass(frozen=True, slots=True)
class SimulatedNight:
    """What came of a night.

    Attributes:
        view: the study as a reader sees it.
        reason: one sentence: why it ended.
        duration_s: simulated time from the first command to the last restore.
        sampling_s: real time for which the sampler thought.
        commands: how often the command was run: once, and again after each fault that ended it.
        faults: what ended the earlier ones.
    """

    view: StudyView
    reason: str
    duration_s: float
    sampling_s: float
    commands: int
    faults: tuple[str, ...]


def simulate_night(
    surface: Surface,
    sampler: SamplerSettings | Sampler,
    seed: int,
    trials: int,
    *,
    noise: NoiseSettings | None = None,
    faults: FaultSettings | None = None,
    evidence: Sequence[AcceptLengthEvidence] = (),
    pruning: bool = True,
    confirm_boots: int = 0,
    directory: Path | None = None,
    observer: Observer | None = None,
) -> SimulatedNight:
    """Run a study on a surface until so many trials are counted.

    Errors and faults depend on the seed and on how many results the night has, not on who proposes: nights of one seed can be
    compared. The sampler has the same seed.

    Args:
        surface: the machine.
        sampler: who proposes; an object of any kind, or as a study file names it.
        seed: of everything that is left to chance.
        trials: as ``--trials``.
        noise: how figures err.
        faults: what goes wrong; a fault that ends the command is followed by the same command again.
        evidence: of accept lengths, given to the sampler before the first trial.
        pruning: whether hopeless trials are stopped.
        confirm_boots: boots at most in which the leaders are confirmed after the search.
        directory: of the study, which is continued if it is there; default: a folder that is removed at the end.
        observer: told everything.

    Raises:
        HostError: more than :data:`MAX_COMMANDS` faults ended the command.
    """
    settings = name_settings(surface, sampler, seed, pruning=pruning, confirm_boots=confirm_boots)
    proposer = _inform(make_sampler(sampler) if isinstance(sampler, SamplerSettings) else sampler, tuple(evidence))
    clock = SimulatedClock()
    host = SimulatedHost(surface, clock, NightNoise(noise or NoiseSettings(), seed), faults or FaultSettings())
    met: list[str] = []
    with ExitStack() as cleanup:
        if directory is None:
            root = _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None
            directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="autotune-", dir=root)))
        while True:
            with Study.open(settings, directory, clock=clock, sampler=proposer) as study:
                try:
                    reason = _run_command(study, host, Limits(trials=trials), observer or _ignore)
                except HostError as error:
                    met.append(error.message)
                    if len(met) >= MAX_COMMANDS:
                        raise
                else:
                    return SimulatedNight(
                        study.view(), reason, clock.monotonic(), proposer.spent_s, len(met) + 1, tuple(met)
                    )


def name_settings(
    surface: Surface, sampler: SamplerSettings | Sampler, seed: int, *, pruning: bool, confirm_boots: int
) -> StudySettings:
    """Return the study of a surface with another sampler and seed, with or without pruning and confirmation."""
    settings = surface.settings
    return settings.model_copy(
        update={
            "seed": seed,
            "sampler": sampler if isinstance(sampler, SamplerSettings) else settings.sampler,
            "pruning": settings.pruning.model_copy(update={"enabled": pruning}),
            "confirmation": ConfirmationSettings(boots=confirm_boots),
        }
    )


def _run_command(study: Study, host: SimulatedHost, limits: Limits, observer: Observer) -> str:
    """Run one command on the machine and return why it ended."""
    settings, space = study.settings, study.space
    dialect = SimulatedDialect(space, settings.server, host)
    baseline = dialect.render_launch(space.resolve(settings.baseline))
    busiest = max(expected_cells(settings), key=lambda cell: (cell.concurrency, -cell.context))
    host.count_results = lambda: count_results(study.trials())

    def open_benchmark(configuration: Configuration, _records: Path) -> SimulatedBenchmark:
        def wants_round(cell: Cell, logs: Sequence[float]) -> bool:
            return learn_precision(study.trials(), cell).wants_round(logs)

        return SimulatedBenchmark(host, settings.benchmark, configuration, space.key(configuration), wants_round)

    def open_evaluation(configuration: Configuration, _records: Path) -> SimulatedEvaluation:
        return SimulatedEvaluation(host, settings.evaluation, configuration, busiest)

    night = Night(
        study,
        deployment=SimulatedDeployment(host, dialect, baseline),
        dialect=dialect,
        meters=Meters(open_benchmark, open_evaluation),
        limits=limits,
        observer=observer,
        clock=host.clock,
        interruption=Interruption(),
    )
    return night.run().reason


def count_results(trials: Sequence[TrialRecord]) -> int:
    """Return how many trials have been booted to an end: what was interrupted is booted again and errs as before."""
    without = (TrialState.INTERRUPTED, TrialState.DUPLICATE)
    return sum(trial.state.is_final and trial.state not in without for trial in trials)


class _Informed:
    """Gives a sampler evidence beside what the study has, and takes its time.

    Args:
        sampler: who proposes.
        evidence: what it is told beside.

    Attributes:
        spent_s: real time for which it thought.
    """

    def __init__(self, sampler: Sampler, evidence: tuple[AcceptLengthEvidence, ...]) -> None:
        self._sampler = sampler
        self._evidence = evidence
        self.spent_s = 0.0

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return what the sampler proposes."""
        with self._timed():
            return self._sampler.propose(self._tell(history), space, pending, rng)

    def _tell(self, history: History) -> History:
        return replace(history, evidence=(*history.evidence, *self._evidence))

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - began_s


class _InformedStopping(_Informed):
    """The same for one that knows when to stop."""

    def __init__(self, sampler: StoppingSampler, evidence: tuple[AcceptLengthEvidence, ...]) -> None:
        super().__init__(sampler, evidence)
        self._stopping = sampler

    def explain_exhaustion(self, history: History, space: SearchSpace) -> str | None:
        """Return why nothing is left to win, if the sampler says so."""
        with self._timed():
            return self._stopping.explain_exhaustion(self._tell(history), space)


def _inform(sampler: Sampler, evidence: tuple[AcceptLengthEvidence, ...]) -> _Informed:
    """Return a sampler that is told more, and stops where the one inside it would."""
    if isinstance(sampler, StoppingSampler):
        return _InformedStopping(sampler, evidence)
    return _Informed(sampler, evidence)


def _ignore(_event: Event) -> None:
    """Watch nothing."""
