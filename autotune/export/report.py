"""How a study reads on one page: a self-contained HTML file, every untrusted word escaped (pure).

The plot is drawn by hand as SVG: the file stays small, prints well and needs no script and no network.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from autotune.export.findings import Findings, accept_length
from autotune.export.method import describe_details, describe_measured, describe_noise_and_time, describe_provenance
from autotune.export.pareto_plot import render_pareto_plot
from autotune.export.points import locate_points
from autotune.export.proof import judge_proof
from autotune.export.verdicts import BASELINE, summarize_verdicts
from autotune.export.wording import (
    UNKNOWN,
    clean,
    known_bounds,
    render_boots,
    render_count,
    render_drifts,
    render_duration,
    render_figure,
    render_gain,
    render_gain_with_interval,
    render_number,
    render_share,
)
from autotune.trial import CellMeasurement, Figure, TrialKind, TrialRecord, TrialState, Verdict

if TYPE_CHECKING:
    from autotune.study_view import StudyView

TRUNCATED_SHARE = 0.1
"""More truncated answers than this are worth a warning: pass@1 then measures the token limit."""


def render_report(view: StudyView, findings: Findings, *, autotune_version: str, written_at: str) -> str:
    """Render the whole page.

    Args:
        view: the study.
        findings: what it found.
        autotune_version: of this package.
        written_at: UTC, ISO 8601.
    """
    template = (files("autotune.export") / "report.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(template)
    points = locate_points(view, findings)
    located = {point.label for point in points}
    unplotted = [
        f"trial {trial.number} ({trial.state.value})"
        for trial in view.trials
        if str(trial.number) not in located and trial.state is not TrialState.DUPLICATE
    ]
    return page.render(
        study=view.settings.name,
        headline=_headline(view, findings, written_at),
        recommendation=_recommendation(view, findings),
        warnings=_warnings(findings),
        # Safe: the plot escapes its own texts.
        plot=Markup(render_pareto_plot(points)),  # noqa: S704
        unplotted=", ".join(unplotted),
        front=[_front_row(point.trials, view, findings) for point in findings.front],
        trials=[_trial_row(trial, view, findings) for trial in view.trials],
        cells=_cell_rows(findings),
        verdicts=_verdicts(findings),
        noise_and_time=describe_noise_and_time(view, findings),
        measured=describe_measured(view, findings),
        provenance=describe_provenance(view, findings, autotune_version, written_at),
        details=describe_details(view, findings),
        footer=f"Written by autotune {autotune_version} on {written_at}.",
    )


@dataclass(frozen=True, slots=True)
class _Speed:
    """One speed of one trial in a table."""

    value: str
    detail: str
    gain: str
    gain_detail: str
    direction: str


def _headline(view: StudyView, findings: Findings, written_at: str) -> str:
    states = ", ".join(f"{count} {state.value}" for state, count in findings.states.items())
    return (
        f"{render_count(view.counted, 'trial')} counted ({states or 'none yet'}), "
        f"{render_boots(findings.time)}, {render_duration(findings.time.total_s)}; as of {written_at}"
    )


def _recommendation(view: StudyView, findings: Findings) -> dict[str, Any] | None:
    choice, baseline = findings.choice, findings.baseline
    if choice is None or baseline is None:
        return None
    number, speeds, proof = choice.trial.number, choice.trial.objectives, judge_proof(choice.trial, findings)
    is_baseline = number == baseline.number
    figures = []
    for what, figure, gains in (
        ("one user (C=1)", speeds.tokens_per_s_c1, findings.gains_c1),
        ("32 users (C=32), all together", speeds.tokens_per_s_c32, findings.gains_c32),
    ):
        gain = None if is_baseline else gains.get(number)
        detail = f"95%: {_interval(figure)}" + (f"; gain {_gain_interval(gain)}" if gain else "")
        figures.append(
            {
                "what": what,
                "value": UNKNOWN if figure is None else render_number(figure.value),
                "unit": "tokens/s",
                "gain": "" if gain is None else render_gain(gain),
                "direction": _direction(gain),
                "detail": detail,
            }
        )
    base = baseline.objectives.pass_at_1
    name, is_service = shlex.quote(view.settings.name), view.settings.deployment.kind == "systemd"
    figures.append(
        {
            "what": "coding problems, pass@1",
            "value": UNKNOWN if speeds.pass_at_1 is None else f"{100 * speeds.pass_at_1.value:.0f}",
            "unit": "%",
            "gain": "",
            "direction": "",
            "detail": f"{render_share(speeds.pass_at_1)}; baseline {render_share(base)}",
        }
    )
    return {
        "number": number,
        "is_baseline": is_baseline,
        "verdict": "" if proof is None else proof.verdict,
        "configuration": view.space.describe(choice.trial.configuration),
        "reason": choice.reason,
        "figures": figures,
        "command": f"autotune export {name} --trial {number} " + ("--apply" if is_service else "> 50-autotune.conf"),
        "undo": f"autotune rollback {name}" if is_service else "",
    }


def _warnings(findings: Findings) -> list[str]:
    """Sentences that a reader must see before believing the recommendation."""
    choice, warnings = findings.choice, []
    if choice is None or findings.baseline is None:
        return []
    evaluation = choice.trial.evaluation
    if evaluation is not None and evaluation.results:
        truncated = sum(result.verdict is Verdict.TRUNCATED for result in evaluation.results)
        if truncated > TRUNCATED_SHARE * len(evaluation.results):
            warnings.append(
                f"{truncated} of {len(evaluation.results)} answers were cut off by the token limit: "
                "evaluation.max_tokens is too small, or this configuration is ill."
            )
    proof = judge_proof(choice.trial, findings)
    if proof is not None and not proof.is_proven:
        warnings.append(f"The gain is {proof}.")
    return [*warnings, *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in render_drifts(findings))]


def _front_row(trials: Sequence[TrialRecord], view: StudyView, findings: Findings) -> dict[str, Any]:
    first = findings.shown(trials[0])
    return {
        "numbers": ", ".join(str(trial.number) + _say_pooled(trial, findings) for trial in trials),
        "configuration": "; ".join(dict.fromkeys(view.space.describe(trial.configuration) for trial in trials)),
        "is_recommended": any(findings.is_recommended(trial) for trial in trials),
        "c1": _speed(first.objectives.tokens_per_s_c1, findings.gains_c1.get(first.number)),
        "c32": _speed(first.objectives.tokens_per_s_c32, findings.gains_c32.get(first.number)),
        "pass_at_1": _share(first.objectives.pass_at_1),
    }


def _say_pooled(trial: TrialRecord, findings: Findings) -> str:
    """Say of the baseline on the front that its figures are those of several boots, each of which has its own row."""
    if trial.kind is not TrialKind.BASELINE or findings.baseline_boots < 2:
        return ""
    return f" (baseline, {findings.baseline_boots} boots pooled)"


def _trial_row(trial: TrialRecord, view: StudyView, findings: Findings) -> dict[str, Any]:
    accepts = [accept_length(trial, 1), accept_length(trial, 32)]
    notes = [note for cell in trial.cells for note in cell.notes]
    if trial.number in findings.drifts:
        notes.append(f"this boot drifted: {'; '.join(findings.drifts[trial.number])}")
    return {
        **_front_row([trial], view, findings),
        "numbers": str(trial.number),
        "kind": trial.kind.value,
        "state": trial.state.value,
        "arm": view.space.arm(trial.configuration),
        "is_greyed": trial.state is not TrialState.COMPLETE,
        "accept": UNKNOWN
        if accepts == [None, None]
        else " / ".join(UNKNOWN if value is None else f"{value:.2f}" for value in accepts),
        "duration": render_duration(trial.duration_s),
        "reason": clean("; ".join([*([trial.reason] if trial.reason else []), *dict.fromkeys(notes)])),
    }


def _cell_rows(findings: Findings) -> list[dict[str, Any]]:
    choice, baseline = findings.choice, findings.baseline
    if choice is None or baseline is None or choice.trial.number == baseline.number:
        return []
    theirs = {cell.cell: cell for cell in baseline.cells}
    rows = []
    for cell in choice.trial.cells:
        if cell.cell in theirs:
            rows.append(_cell_row(theirs[cell.cell], "baseline", is_recommended=False))
        rows.append(_cell_row(cell, f"trial {choice.trial.number}", is_recommended=True))
    return rows


def _cell_row(cell: CellMeasurement, who: str, *, is_recommended: bool) -> dict[str, Any]:
    tpot = cell.tpot_s
    return {
        "cell": cell.cell.name,
        "who": who,
        "is_recommended": is_recommended,
        "decode": render_figure(cell.decode_tokens_per_s),
        "total": render_figure(cell.total_tokens_per_s),
        "ttft": UNKNOWN if cell.ttft_s is None else f"{cell.ttft_s.value:.3f}",
        "tpot": UNKNOWN if tpot is None else f"{1000 * tpot.value:.2f}",
        "accept": UNKNOWN if cell.accept_length is None else f"{cell.accept_length.value:.2f}",
        "step": UNKNOWN if cell.step_time_s is None else f"{1000 * cell.step_time_s.value:.1f}",
        "requests": f"{cell.succeeded} of {cell.requests}",
        "notes": clean("; ".join(cell.notes)),
    }


def _verdicts(findings: Findings) -> dict[str, Any] | None:
    choice, baseline = findings.choice, findings.baseline
    if choice is None or baseline is None:
        return None
    compared = [(BASELINE, baseline)]
    if choice.trial.number != baseline.number:
        compared.append((f"trial {choice.trial.number}", choice.trial))
    known = [(who, trial.evaluation) for who, trial in compared if trial.evaluation is not None]
    return summarize_verdicts(known) if known else None


def _speed(figure: Figure | None, gain: Figure | None) -> _Speed:
    return _Speed(
        value=UNKNOWN if figure is None else render_number(figure.value),
        detail="" if figure is None else f"{_interval(figure)}, n={figure.count}",
        gain=render_gain(gain),
        gain_detail="" if gain is None else _gain_interval(gain),
        direction=_direction(gain),
    )


def _share(figure: Figure | None) -> dict[str, str]:
    if figure is None:
        return {"value": UNKNOWN, "detail": ""}
    value, _, detail = render_share(figure).partition(" (")
    return {"value": value, "detail": detail.removesuffix(")")}


def _interval(figure: Figure | None) -> str:
    bounds = known_bounds(figure)
    return "interval unknown" if bounds is None else " to ".join(map(render_number, bounds))


def _gain_interval(gain: Figure) -> str:
    detail = render_gain_with_interval(gain).partition(" (")[2].removesuffix(")")
    return detail.replace(f", n={gain.count}", "") if known_bounds(gain) else "interval unknown"


def _direction(gain: Figure | None) -> str:
    """Colour a gain only when its whole interval lies on one side."""
    if gain is None or gain.low is None or gain.high is None:
        return ""
    return "up" if gain.low > 1 else "down" if gain.high < 1 else ""
