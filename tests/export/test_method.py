from __future__ import annotations

from dataclasses import replace

from autotune.export.findings import find
from autotune.export.method import describe_noise_and_time
from autotune.settings import SamplerSettings
from autotune.study_view import StudyView
from autotune.trial import TrialKind


def rows_of(view: StudyView, sampler: str) -> dict[str, str]:
    settings = view.settings.model_copy(update={"sampler": SamplerSettings.model_validate({"name": sampler})})
    modelled = replace(view, settings=settings)
    return dict(describe_noise_and_time(modelled, find(modelled)))


def test_a_sampler_with_a_model_shows_how_good_its_expectations_were(view: StudyView):
    said = rows_of(view, "greybox")["predictions"]

    assert "95% interval that the model had before the boot" in said
    within, total = (int(number) for number in (said.split()[0], said.split()[2]))
    assert 0 <= within <= total
    assert total >= 2


def test_without_boots_to_compare_with_no_expectation_is_judged(view: StudyView):
    baseline = tuple(trial for trial in view.trials if trial.kind is TrialKind.BASELINE)

    assert rows_of(replace(view, trials=baseline), "greybox")["predictions"] == "none: too few boots"


def test_a_sampler_without_a_model_expects_nothing(view: StudyView):
    assert "predictions" not in rows_of(view, "gp")
