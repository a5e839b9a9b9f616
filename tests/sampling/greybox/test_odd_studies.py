"""Studies that nobody wishes for: the sampler still proposes something, and says nothing that is not so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.objectives import expected_cells, score
from autotune.pruning import decide
from autotune.sampling.base import AcceptLengthEvidence
from autotune.sampling.greybox import sampler as sampler_module
from autotune.sampling.greybox.durations import expected_seconds
from autotune.sampling.greybox.encoding import Encoding, Rows, Vector
from autotune.sampling.greybox.exhaustion import Remaining
from autotune.sampling.greybox.sampler import GreyboxSampler
from autotune.sampling.greybox.standing import Standing, find_standing
from autotune.search_space import SearchSpace
from autotune.search_space_file import SearchSpaceFile
from autotune.settings import ExportSettings, StudySettings
from autotune.suggestion import read_history
from autotune.trial import (
    BootCondition,
    BootRecord,
    Cell,
    CellMeasurement,
    Figure,
    TrialKind,
    TrialRecord,
    TrialState,
)
from tests.records import STUDY, make_evaluation, make_settings
from tests.sampling.greybox.small_surface import Server, measure

LONG = """
[[benchmark.stages]]
name = "long"
cells = [{ context = 4096, concurrency = 1 }, { context = 1024, concurrency = 32 }]
"""
SPEEDS: Mapping[str, Callable[[random.Random], float]] = {
    "usual": lambda rng: math.exp(rng.gauss(4.0, 0.2)),
    "identical": lambda _rng: 100.0,
    "over nine orders of magnitude": lambda rng: 10 ** rng.uniform(-3, 6),
}
ENDS = (*[TrialState.COMPLETE] * 3, TrialState.PRUNED, TrialState.INFEASIBLE, TrialState.FAILED, TrialState.INTERRUPTED)
HISTOGRAMS: Sequence[tuple[int, ...]] = ((), (0, 0, 0), (5,), (100, 50, 20, 5), tuple(range(30)))
FREE_GB = (None, 0.0, -1.0, 4.0)


def make_space(**parameters: dict[str, object]) -> SearchSpace:
    """A space of the given parameters, each with a flag of its own."""
    tables = {name: {"flag": f"--{name}", **table} for name, table in parameters.items()}
    return SearchSpace(SearchSpaceFile.model_validate({"name": "odd", "parameters": tables}))


def whole_number(low: int, high: int, default: int | None = None, step: int = 1) -> dict[str, object]:
    return {"kind": "int", "low": low, "high": high, "step": step, "default": low if default is None else default}


def choice(*choices: int | str) -> dict[str, object]:
    return {"kind": "choice", "choices": list(choices), "default": choices[0]}


def test_a_block_or_budget_that_stands_for_off_or_automatic_is_no_number():
    encoding = Encoding(make_space(budget=whole_number(-1, 3), block=choice(0, 8, 16)))

    assert encoding.budget is None
    assert encoding.block is None
    assert not encoding.is_plain.any()


SPACES = (
    make_space(alpha=choice("only")),
    make_space(alpha=whole_number(-3, 9)),
    make_space(backend=choice("fa3", "triton", "none"), kernel=choice("a", "b")),
    make_space(budget=whole_number(0, 16, 4), topk=whole_number(1, 4), block=whole_number(1, 13, 5, 4)),
    make_space(budget=choice("none", 4, 8), block=choice(4, 8)),
    make_space(block=choice(0, 8, 16), topk=whole_number(1, 8)),
    make_space(budget=whole_number(-1, 38, 2, 3), window=choice(32, "none")),
)


def make_study(rng: random.Random, space: SearchSpace) -> StudySettings:
    """A study whose baseline is any configuration, with contexts that only some trials reach."""
    baseline = {name: "none" if value is None else value for name, value in rng.choice(space.configurations).items()}
    study = make_settings(STUDY + rng.choice(("", LONG)), baseline=baseline)
    rule = rng.choice(("balanced", "c1", "c32"))
    return study.model_copy(update={"export": study.export.model_copy(update={"rule": rule})})


def make_history(rng: random.Random, space: SearchSpace, study: StudySettings) -> list[TrialRecord]:
    """Trials that may have ended in any way; often all in the same."""
    ends = rng.choice((ENDS, *[(state,) for state in ENDS[2:]]))
    speed = rng.choice(list(SPEEDS.values()))
    concurrencies = rng.choice(((1, 32), (1, 32), (32,)))
    longest = rng.choice((None, 0.5, 8.0))
    histogram, free_gb = rng.choice(HISTOGRAMS), rng.choice(FREE_GB)
    trials: list[TrialRecord] = []
    for number in range(rng.choice((0, 1, 3, 9, 14))):
        is_first = number == 0
        state = TrialState.COMPLETE if is_first else rng.choice(ends)
        cells = [cell for cell in expected_cells(study) if cell.concurrency in concurrencies]
        if state is not TrialState.COMPLETE:
            cells = cells[: rng.randint(0, len(cells))]
        record = TrialRecord(
            number,
            TrialKind.BASELINE if is_first else rng.choice((TrialKind.SEARCH, TrialKind.LISTED)),
            state,
            space.resolve(study.baseline) if is_first else rng.choice(space.configurations),
            reason=rng.choice(("OutOfMemory: no room", "ConfigurationRejected: no")),
            cells=tuple(make_cell(cell, speed(rng), longest, histogram, rng) for cell in cells),
            evaluation=rng.choice((None, make_evaluation(rng.choice((0, 30)), 10))),
            boot=BootRecord(1, ("serve",), {}, {}, rng.choice((None, 0.0, 60.0)), free_memory_gb=free_gb),
            condition=BootCondition((Figure(rng.choice((100.0, 100.0, 200.0)), 1), Figure(100.0, 1))),
            duration_s=rng.choice((None, 0.0, 100.0)),
        )
        if rng.random() < 0.05:
            record = replace(record, configuration={"gone": 1})
        if rng.random() < 0.1:
            record = replace(
                record, attributes={"asked": [list(item) for item in rng.choice(space.configurations).items()]}
            )
        trials.append(replace(record, objectives=score(record.cells, record.evaluation, study)))
    return trials


def make_cell(
    cell: Cell, speed: float, longest: float | None, histogram: tuple[int, ...], rng: random.Random
) -> CellMeasurement:
    length = None if longest is None else rng.uniform(min(1.0, longest), longest)
    rounds = rng.choice(((), (1.0, 1.0), (1.0, 3.0)))
    return replace(measure(cell, speed, length), accepted_histogram=histogram, round_log_speeds=rounds)


def make_evidence(rng: random.Random, space: SearchSpace) -> tuple[AcceptLengthEvidence, ...]:
    if rng.random() < 0.7:
        return ()
    told = [configuration for configuration in space.configurations if rng.random() < 0.5]
    return tuple(AcceptLengthEvidence(item, rng.uniform(1, 9), rng.choice((0.0, 0.05)), "guess") for item in told)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, len(SPACES) - 1), seed=st.integers(0, 2**32))
def test_whatever_happened_something_of_the_space_is_proposed_and_the_same_again(number: int, seed: int):
    space, rng = SPACES[number], random.Random(seed)  # noqa: S311
    study = make_study(rng, space)
    trials = make_history(rng, space, study)
    history = replace(read_history(trials, study, space), evidence=make_evidence(rng, space))
    keys = {space.key(trial.configuration) for trial in trials if trial.configuration != {"gone": 1}}
    left = [configuration for configuration in space.configurations if space.key(configuration) not in keys]
    pending = rng.choice(((), tuple(left[:2]), tuple(left)))

    first, second = (GreyboxSampler().propose(history, space, pending, random.Random(1)) for _ in range(2))  # noqa: S311

    assert first in space.configurations
    assert first == second
    reason = GreyboxSampler().explain_exhaustion(history, space)
    assert reason is None or "nan" not in reason


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, len(SPACES) - 1), seed=st.integers(0, 2**32))
def test_whatever_happened_an_open_trial_is_judged_and_a_listed_one_goes_on(number: int, seed: int):
    space, rng = SPACES[number], random.Random(seed)  # noqa: S311
    study = make_study(rng, space)
    trials = [trial for trial in make_history(rng, space, study) if trial.configuration != {"gone": 1}]
    shown = max((trial.cells for trial in trials), key=len, default=())
    cells = shown[: rng.randint(0, len(shown))]
    number_of_it = len(trials)
    for kind in (TrialKind.SEARCH, TrialKind.LISTED):
        seen = TrialRecord(number_of_it, kind, TrialState.MEASURING, rng.choice(space.configurations), cells=cells)
        decision = decide(seen, [*trials, seen], study, space)

        assert "nan" not in decision.reason
        assert not (decision.prune and kind is TrialKind.LISTED)


def test_evidence_of_a_space_without_any_choice_is_heard():
    space = make_space(alpha=choice("only"))
    server = Server(
        settings=make_settings(baseline={"alpha": "only"}),
        space=space,
        speeds=lambda _item: (4.0, 7.0),
        tells_accept_length=False,
    )
    told = (AcceptLengthEvidence(space.configurations[0], 3.0, 0.02, "guess"),)

    history = replace(server.history(), evidence=told)

    assert find_standing(history, Encoding(space)) is not None
    assert GreyboxSampler().propose(history, space, (), random.Random(1)) == {"alpha": "only"}  # noqa: S311


@pytest.mark.parametrize("is_nothing_in_the_draw", [True, False])
def test_of_a_large_space_a_draw_keeps_the_search_going_and_only_all_of_it_ends_it(
    is_nothing_in_the_draw: bool, monkeypatch: pytest.MonkeyPatch
):
    looked: list[int] = []

    def find(_standing: Standing, candidates: Rows, _feasible: Vector, _export: ExportSettings) -> Remaining:
        looked.append(len(candidates))
        return Remaining(0.0 if is_nothing_in_the_draw else 1.0, 0.0, 0.01, 0.005, 0.01)

    monkeypatch.setattr(sampler_module, "find_remaining", find)
    monkeypatch.setattr(sampler_module, "_SHORTLIST", 100)
    space = make_space(alpha=whole_number(0, 299))
    server = Server(
        settings=make_settings(baseline={"alpha": 0}),
        space=space,
        speeds=lambda _item: (4.0, 7.0),
        tells_accept_length=False,
    )
    for value in range(10, 300, 30):
        server.boot({"alpha": value})

    reason = GreyboxSampler().explain_exhaustion(server.history(), space)

    assert looked == ([100, 289] if is_nothing_in_the_draw else [100])
    assert (reason is not None) is is_nothing_in_the_draw


def test_boots_that_took_no_time_still_take_some():
    space = SPACES[1]
    server = Server(
        settings=make_settings(baseline={"alpha": 0}),
        space=space,
        speeds=lambda _item: (4.0, 7.0),
        tells_accept_length=False,
    )
    trials = [replace(trial, boot=BootRecord(1, ("serve",), {}, {}, 0.0)) for trial in server.trials]
    history = replace(server.history(), trials=tuple(trials))

    seconds = expected_seconds(history, np.zeros(2), Encoding(space), np.array([1, 2]))

    assert (seconds > 0).all()
