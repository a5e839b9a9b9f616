from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.errors import HostError
from autotune.events import CellMeasured, Event, Noted
from autotune.export.findings import find
from autotune.sampling.base import AcceptLengthEvidence
from autotune.settings import SamplerSettings
from autotune.simulation.faults import FaultSettings
from autotune.simulation.night import MAX_COMMANDS, SimulatedNight, count_results, simulate_night
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.regret import find_regret
from autotune.simulation.truth import find_truth
from autotune.trial import TrialKind, TrialRecord, TrialState
from tests.simulation.small_surface import ListSampler, SmallSurface

RANDOM = SamplerSettings(name="random")
SURFACE = SmallSurface()
STEADY = NoiseSettings(between=0.001, inside=0.001, drift=0, prompts=0.1, interaction=0.01)


def figures_of(night: SimulatedNight) -> list[tuple[object, ...]]:
    """What a night found, without numbers of trials and times."""
    return [
        (
            trial.kind,
            trial.state,
            tuple(trial.configuration.items()),
            trial.objectives,
            [cell.round_log_speeds for cell in trial.cells],
        )
        for trial in night.view.trials
        if trial.state is not TrialState.INTERRUPTED
    ]


def test_the_real_loop_runs_baseline_list_search_and_baseline_again():
    night = simulate_night(SURFACE, RANDOM, 1, 6)
    kinds = [trial.kind.value for trial in night.view.trials if trial.state is not TrialState.DUPLICATE]

    assert night.reason == "6 of 6 trials are done"
    assert kinds[:3] == ["baseline", "listed", "listed"]
    assert kinds.count("baseline") == 3
    assert night.view.counted == 6
    assert night.commands == 1
    assert 6 * 600 < night.duration_s < 24 * 3600


def test_the_same_seed_gives_the_same_night_and_another_another():
    one, again, other = (simulate_night(SURFACE, RANDOM, seed, 6) for seed in (1, 1, 2))

    assert figures_of(one) == figures_of(again)
    assert one.duration_s == again.duration_s
    assert figures_of(one) != figures_of(other)


def test_the_baseline_errs_alike_whoever_proposes():
    nights = [simulate_night(SURFACE, sampler, 3, 4) for sampler in (RANDOM, ListSampler("budget=24", "budget=30"))]
    baselines = [
        [trial.objectives for trial in night.view.trials if trial.kind is TrialKind.BASELINE] for night in nights
    ]

    assert baselines[0] == baselines[1]
    assert len({objectives.tokens_per_s_c1 for objectives in baselines[0]}) == 3


def test_what_is_recommended_is_close_to_the_truly_best_when_everything_was_looked_at_without_noise():
    everything = [
        SURFACE.space.key(each) for each in SURFACE.space.configurations if SURFACE.find_obstacle(each) is None
    ]
    truth = find_truth(SURFACE)
    night = simulate_night(
        SURFACE, ListSampler(*everything[::4], truth.best), 1, len(everything[::4]) + 1, noise=STEADY
    )
    choice = find(night.view).choice

    assert choice is not None
    assert find_regret(SURFACE.space.key(choice.trial.configuration), truth, "balanced") < 0.01


@pytest.mark.parametrize(
    ("text", "words"), [("budget=60", "out of memory"), ("budget=2,topk=4", "refused its arguments")]
)
def test_an_obstacle_makes_a_trial_infeasible_and_costs_one_boot(text, words):
    night = simulate_night(SURFACE, ListSampler(text, "budget=10"), 1, 4)
    trial = next(each for each in night.view.trials if each.configuration == SURFACE.space.parse(text))

    assert trial.state is TrialState.INFEASIBLE
    assert words in (trial.reason or "")
    assert trial.cells == ()
    assert trial.duration_s is not None
    assert trial.duration_s < 700


def test_hopeless_trials_are_pruned_and_only_if_that_is_wanted():
    order = [f"budget={budget}" for budget in (20, 24, 28, 4, 2)]
    pruned, whole = (
        simulate_night(SURFACE, ListSampler(*order), 1, 7, noise=STEADY, pruning=pruning) for pruning in (True, False)
    )
    states = [[trial.state for trial in night.view.trials] for night in (pruned, whole)]

    assert TrialState.PRUNED in states[0]
    assert TrialState.PRUNED not in states[1]
    assert pruned.duration_s < whole.duration_s


class Killed(BaseException):
    """The tuner is gone at once."""


def kill_at(cell_number: int) -> Callable[[Event], None]:
    left = [cell_number]

    def observe(event: Event) -> None:
        if isinstance(event, CellMeasured):
            left[0] -= 1
            if left[0] == 0:
                raise Killed

    return observe


@pytest.mark.parametrize("cell_number", [1, 8, 11])
def test_a_night_that_is_killed_and_resumed_equals_one_that_was_not(tmp_path: Path, cell_number):
    """In the first baseline, in a searched trial before and after the second one."""
    whole = simulate_night(SURFACE, RANDOM, 1, 6)
    with pytest.raises(Killed):
        simulate_night(SURFACE, RANDOM, 1, 6, directory=tmp_path, observer=kill_at(cell_number))
    resumed = simulate_night(SURFACE, RANDOM, 1, 6, directory=tmp_path)

    assert [trial.state for trial in resumed.view.trials].count(TrialState.INTERRUPTED) == 1
    assert figures_of(resumed) == figures_of(whole)


def test_a_boot_that_hangs_or_dies_once_is_tried_again():
    faults = FaultSettings(hang=0.15, crash=0.15)
    events: list[Event] = []
    night = simulate_night(SURFACE, RANDOM, 1, 8, faults=faults, observer=events.append)
    noted = " ".join(event.sentence for event in events if isinstance(event, Noted))

    assert "tried once more" in noted
    assert night.view.counted == 8
    assert night.duration_s > simulate_night(SURFACE, RANDOM, 1, 8).duration_s


def test_a_lost_connection_ends_the_command_and_the_next_goes_on():
    night = simulate_night(SURFACE, RANDOM, 2, 8, faults=FaultSettings(loss=0.2))

    assert night.commands == len(night.faults) + 1 > 1
    assert "connection" in night.faults[0]
    assert night.view.counted == 8
    assert any(trial.state is TrialState.INTERRUPTED for trial in night.view.trials)


def test_a_machine_on_which_nothing_works_is_given_up():
    with pytest.raises(HostError):
        simulate_night(SURFACE, RANDOM, 1, 8, faults=FaultSettings(loss=1.0))


def test_evidence_reaches_the_sampler():
    evidence = AcceptLengthEvidence(SURFACE.space.parse("budget=8"), 3.0, 0.01, "test")
    seen = []

    class Witness(ListSampler):
        def propose(self, history, space, pending, rng):
            seen.append(history.evidence)
            return super().propose(history, space, pending, rng)

    simulate_night(SURFACE, Witness("budget=8"), 1, 3, evidence=[evidence])

    assert seen[0] == (evidence,)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("autotune.simulation.night._MEMORY_FOLDER", tmp_path)
    simulate_night(SURFACE, RANDOM, 1, 3)

    assert list(tmp_path.iterdir()) == []


def test_a_night_takes_a_few_seconds_at_most():
    began_s = time.process_time()
    simulate_night(SURFACE, RANDOM, 1, 20)

    assert time.process_time() - began_s < 10


def test_results_are_what_was_booted_to_an_end():
    def trial(state: TrialState) -> TrialRecord:
        return TrialRecord(0, TrialKind.SEARCH, state, {})

    counted = [state for state in TrialState if count_results([trial(state)])]

    assert counted == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.INFEASIBLE, TrialState.FAILED]
    assert MAX_COMMANDS > 1
