"""How are drafts gathered: the study's own prompts, a cell for each context, and the log that the server wrote meanwhile?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autotune.errors import MeasurementError
from autotune.objectives import CONCURRENCIES, weight
from autotune.replay.draft_log import LoggedAnswer, read_answers
from autotune.replay.evidence import replay
from autotune.replay.grown_tree import find_rule
from autotune.replay.table import AcceptLengthTable
from autotune.search_space import SearchSpace
from autotune.settings import BenchmarkSettings, CellSettings, StudySettings
from autotune.tuner.meters import CellMeter


def for_profile(settings: BenchmarkSettings) -> BenchmarkSettings:
    """Return the settings of a benchmark that sends each measured prompt once and no others with answers."""
    return settings.model_copy(update={"warmup_requests": 0, "max_rounds": 1})


class DraftProfile:
    """Asks a server that logs its drafts for answers and replays them.

    Args:
        benchmark: sends the requests, by the settings of :func:`for_profile`; what it measures is no speed.
        log_path: the server's log of drafts, as far as it was fetched.
        settings: the study.
        space: its search space.
        fetch_log: brings there what was logged since, and returns how many bytes lie there then.
        environment: variables of the server, which may change the rule of its trees.
    """

    def __init__(
        self,
        benchmark: CellMeter,
        log_path: Path,
        settings: StudySettings,
        space: SearchSpace,
        fetch_log: Callable[[Path], int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._log_path = log_path
        self._settings = settings
        self._space = space
        self._fetch_log = fetch_log
        self._environment = environment or {}

    def run(self) -> tuple[AcceptLengthTable, ...]:
        """Return the accept lengths of all trees that the log can tell.

        Raises:
            MeasurementError: the server did not answer, it logged nothing, or its log cannot be had or read.
            HostError: the server's host cannot be asked.
        """
        rule = find_rule(self._settings.server.proofs, self._environment)
        answers: dict[int, Sequence[LoggedAnswer]] = {}
        weights: dict[int, float] = {}
        for cell in choose_cells(self._settings):
            start = self._fetch_log(self._log_path)
            self._benchmark.measure_cell(cell)
            if not self._fetch_log(self._log_path):
                raise MeasurementError(
                    "the server answered and logged no draft",
                    where=str(self._log_path),
                    hint="see the server's log; where the draft hook steps aside, it says why there",
                )
            with self._log_path.open("rb") as log:
                log.seek(start)
                answers[cell.context] = read_answers(log, str(self._log_path))
            weights[cell.context] = weight(cell.cell, self._settings)
        return replay(answers, weights, self._space, rule)


def choose_cells(settings: StudySettings) -> tuple[CellSettings, ...]:
    """Return a cell for each context that an objective has: the one of the most prompts, in the order of measurement."""
    chosen: dict[int, CellSettings] = {}
    for stage in settings.benchmark.stages:
        for cell in stage.cells:
            if cell.concurrency in CONCURRENCIES:
                known = chosen.get(cell.context)
                chosen[cell.context] = cell if known is None or known.concurrency < cell.concurrency else known
    return tuple(chosen.values())
