"""What a study and its trials say of themselves in Markdown, every untrusted word escaped (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from autotune.export.findings import Findings, accept_length
from autotune.export.proof import judge_proof
from autotune.export.wording import (
    clean,
    render_figure,
    render_gain,
    render_gain_with_interval,
    render_noise,
    render_share,
)
from autotune.trial import Figure, TrialRecord

if TYPE_CHECKING:
    from autotune.study_view import StudyView


def render_study_note(view: StudyView, findings: Findings) -> str:
    """Say what is recommended, and what a reader of the dashboard's own plots must know."""
    lines = []
    choice = findings.choice
    if choice is None:
        lines += ["**Nothing to recommend yet**: the baseline has not been measured.", ""]
    else:
        number = choice.trial.number
        proof = judge_proof(choice.trial, findings)
        lines += [
            f"**Recommended: trial {number}**{'' if proof is None else f' ({proof.verdict})'}, `{view.space.describe(choice.trial.configuration)}`",
            "",
            escape_markdown(choice.reason if proof is None else f"{choice.reason}; {proof}"),
            "",
            *_figures(choice.trial, findings),
            "",
        ]
    front = ", ".join("/".join(str(trial.number) for trial in point.trials) for point in findings.front) or "none yet"
    return "\n".join(
        [
            *lines,
            (
                f"On the front: {front}. The graph *Front of the feasible trials* (first page) is the one to read: the dashboard's own "
                "Pareto plot takes pass@1 as a third axis at face value, where this study takes it as a guard."
            ),
            "",
            f"Noise between boots: {render_noise(findings.noise)}.",
            "",
            "This dashboard only reads; nothing that is clicked changes the study.",
        ]
    )


def render_trial_note(trial: TrialRecord, view: StudyView, findings: Findings) -> str:
    """Say how a trial ended and what it measured."""
    lines = [
        f"**{trial.kind.value} trial, {trial.state.value}**: `{view.space.describe(trial.configuration)}`",
        "",
        *([escape_markdown(trial.reason), ""] if trial.reason else []),
        *(f"This boot drifted: {escape_markdown(said)}.\n" for said in findings.drifts.get(trial.number, ())),
        *_figures(trial, findings),
    ]
    for cell in trial.cells:
        notes = "".join(f"; {escape_markdown(note)}" for note in cell.notes)
        lines.append(f"- {cell.cell.name}: {render_figure(cell.decode_tokens_per_s)} tokens/s{notes}")
    return "\n".join(lines)


def trial_attributes(trial: TrialRecord, view: StudyView, findings: Findings) -> dict[str, str | int | float]:
    """Return the few attributes of a trial that are worth a column; unknown ones are left out."""
    attributes: dict[str, str | int | float | None] = {
        "state": trial.state.value,
        "kind": trial.kind.value,
        "arm": view.space.arm(trial.configuration),
        "front": "yes" if findings.is_on_front(trial) else "no",
        "gain C=1": _known_gain(findings.gains_c1.get(trial.number)),
        "gain C=32": _known_gain(findings.gains_c32.get(trial.number)),
        "accept length C=1": _rounded(accept_length(trial, 1)),
        "accept length C=32": _rounded(accept_length(trial, 32)),
        "reason": None if trial.reason is None else clean(trial.reason),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def escape_markdown(text: str) -> str:
    r"""Make text appear as it is in Markdown that may hold HTML.

    >>> print(escape_markdown("a <b> *c* [d](e)"))
    a &lt;b&gt; \*c\* \[d\]\(e\)
    """
    entities = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~$-])", r"\\\1", entities).replace("\n", "  \n")


def _figures(trial: TrialRecord, findings: Findings) -> list[str]:
    speeds = findings.shown(trial).objectives
    lines = [
        f"- {name}: {render_figure(figure)} tokens/s"
        + ("" if gain is None else f", {render_gain_with_interval(gain)} against the baseline")
        for name, figure, gain in (
            ("one user (C=1)", speeds.tokens_per_s_c1, findings.gains_c1.get(trial.number)),
            ("32 users (C=32)", speeds.tokens_per_s_c32, findings.gains_c32.get(trial.number)),
        )
        if figure is not None
    ]
    if speeds.pass_at_1 is not None:
        lines.append(f"- pass@1: {render_share(speeds.pass_at_1)}")
    return lines


def _known_gain(gain: Figure | None) -> str | None:
    return None if gain is None else render_gain(gain)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
