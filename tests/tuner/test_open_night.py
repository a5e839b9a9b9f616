"""What a real night is put together from."""

from __future__ import annotations

from pathlib import Path

from autotune.deployment.systemd import SystemdDeployment
from autotune.evaluation.evaluation import Evaluation
from autotune.events import Counted, Event
from autotune.settings import DeploymentSettings, parse_settings
from autotune.study import Study
from autotune.tuner import Limits, open_night
from autotune.tuner.interruption import Interruption
from autotune.tuner.wakeful_evaluation import WakefulEvaluation
from tests.tuner.imaginary import STUDY


def test_a_night_on_a_service_hears_signals_and_notices_sleep(tmp_path: Path):
    settings = parse_settings(STUDY, "study.toml").model_copy(
        update={"deployment": DeploymentSettings(kind="systemd", unit="llm.service")}
    )
    interruption = Interruption()
    with Study.open(settings, tmp_path) as study:
        night = open_night(study, Limits(), lambda _event: None, interruption)
        configuration = study.space.resolve(settings.baseline)
        evaluation = night._rig.meters.open_evaluation(configuration, tmp_path / "answers.jsonl")

    assert isinstance(night._deployment, SystemdDeployment)
    assert night._deployment._interruptible == interruption.interruptible
    assert isinstance(evaluation, WakefulEvaluation)


def test_a_night_counts_the_coding_answers(tmp_path: Path):
    settings = parse_settings(STUDY, "study.toml")
    seen: list[Event] = []
    with Study.open(settings, tmp_path) as study:
        night = open_night(study, Limits(), seen.append, Interruption())
        evaluation = night._rig.meters.open_evaluation(
            study.space.resolve(settings.baseline), tmp_path / "answers.jsonl"
        )
        assert isinstance(evaluation, WakefulEvaluation)
        assert isinstance(evaluation._evaluation, Evaluation)
        evaluation._evaluation._on_progress("answers", 3, 80)

    assert [(event.what, event.done, event.of) for event in seen if isinstance(event, Counted)] == [("answers", 3, 80)]
