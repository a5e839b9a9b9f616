"""Status, report, dashboard and export say what a confirmation has found."""

from __future__ import annotations

from autotune.export.document import study_document
from autotune.export.findings import find
from autotune.export.notes import render_study_note
from autotune.export.points import Mark, locate_points
from autotune.export.proof import judge_proof
from autotune.export.report import render_report
from autotune.search_space import search_space_of
from autotune.study_view import StudyView
from autotune.trial import TrialRecord, TrialState
from tests.confirmation.boots import PLAN, confirm, make_baseline, make_boot, soaked
from tests.records import make_settings

SETTINGS = make_settings()
SEARCH = [make_baseline(), make_boot(1, 130, 520), make_boot(2, 105, 420)]
GAIN = confirm(PLAN, [{None: 100, 1: 120}, {None: 101, 1: 121}])
NO_GAIN = confirm(PLAN, [{None: 100, 1: 104}, {None: 108, 1: 106}, {None: 100, 1: 103}])


def view_of(trials: list[TrialRecord]) -> StudyView:
    return StudyView(SETTINGS, search_space_of(SETTINGS), tuple(trials))


def test_a_confirmed_trial_is_proven_and_its_figures_are_those_of_all_its_boots():
    findings = find(view_of([*SEARCH, *GAIN]))
    assert findings.choice is not None
    proof = judge_proof(findings.choice.trial, findings)

    assert proof is not None
    assert (proof.is_proven, proof.verdict) == (True, "confirmed")
    assert round(findings.gains_c1[1].value, 2) == round((130 * 120 * 121) ** (1 / 3) / (100 * 100 * 101) ** (1 / 3), 2)
    assert findings.baseline_boots == 3


def test_a_trial_without_a_significant_gain_is_not_proven_however_fast_it_was_in_the_search():
    findings = find(view_of([*SEARCH, *NO_GAIN]))
    proof = judge_proof(SEARCH[1], findings)

    assert proof is not None
    assert (proof.is_proven, proof.verdict) == (False, "no significant gain")
    assert findings.is_baseline_recommended


def test_boots_of_a_confirmation_are_on_no_front_and_are_drawn_as_other_boots():
    trials = [*SEARCH, *GAIN, soaked(PLAN, 1, 150, TrialState.COMPLETE, "it survived")]
    view = view_of(trials)
    findings = find(view)
    marks = {point.label: point.mark for point in locate_points(view, findings)}

    assert {trial.number for point in findings.front for trial in point.trials} == {1}
    assert {marks[str(trial.number)] for trial in GAIN} == {Mark.ANOTHER_BOOT}
    assert "150" not in marks


def test_report_dashboard_and_data_say_what_came_out():
    view = view_of([*SEARCH, *NO_GAIN])
    findings = find(view)
    page = render_report(view, findings, autotune_version="1", written_at="2026-01-01T00:00:00+00:00")
    document = study_document(view, findings, "studies/test")

    assert "no significant gain" in page
    assert "no significant gain" in render_study_note(view, findings)
    assert document["confirmations"][0]["leaders"][0]["outcome"] == "no significant gain"
    assert document["recommendation"]["trial"] == 0
