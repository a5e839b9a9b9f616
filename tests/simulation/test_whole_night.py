from __future__ import annotations

from autotune.settings import EvaluationSettings
from autotune.simulation.catalogue import open_surface
from autotune.simulation.night import simulate_night
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.sequence import SequenceSampler, draw_order
from autotune.simulation.whole_night import measure_night
from autotune.trial import TrialKind, TrialState


def test_the_trial_loop_measures_the_same():
    surface = open_surface("cliff")
    surface.settings = surface.settings.model_copy(update={"evaluation": EvaluationSettings(enabled=False)})
    order = draw_order(surface.space, 40, 4)

    real = simulate_night(surface, SequenceSampler(order), 4, 6, pruning=False).view.trials
    quick = measure_night(surface, order, 4, 6, NoiseSettings())

    assert [(trial.kind, trial.configuration, trial.state, trial.cells) for trial in quick] == [
        (trial.kind, trial.configuration, trial.state, trial.cells) for trial in real
    ]
    assert TrialState.INFEASIBLE in {trial.state for trial in quick}
    assert [trial.kind for trial in quick].count(TrialKind.BASELINE) == 3


def test_what_was_listed_or_is_the_baseline_is_passed_over():
    surface = open_surface("flat")
    listed = [surface.space.resolve(values) for values in surface.settings.try_]
    baseline = surface.space.resolve(surface.settings.baseline)
    other = surface.space.resolve({"budget": 32})

    night = measure_night(surface, [*listed, baseline, other, other], 1, 3, NoiseSettings())

    assert [trial.configuration for trial in night if trial.kind is TrialKind.SEARCH] == [other]
