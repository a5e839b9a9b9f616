"""``autotune status``: what a study has found so far, read without touching it, also while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import render, study_argument
from autotune.cli.study_argument import OpenedView
from autotune.confirmation.wording import describe_verdict
from autotune.export.document import study_document
from autotune.export.findings import Findings, accept_length, find
from autotune.export.proof import judge_proof
from autotune.export.wording import (
    UNKNOWN,
    clean,
    render_boots,
    render_drifts,
    render_duration,
    render_figure,
    render_gain,
    render_gain_with_interval,
    render_noise,
    render_number,
    render_share,
)
from autotune.study_lock import read_holder
from autotune.study_view import StudyView
from autotune.trial import TrialRecord


@click.command("status")
@study_argument.argument
@study_argument.directory_option
@click.option("--json", "as_json", is_flag=True, help="Print data instead of text.")
def command(study: str | None, study_directory: Path | None, as_json: bool) -> None:
    """Show what a study has found so far; works while it runs.

    STUDY is a name, a study file or a directory; without it, the study that was worked on last.
    """
    opened = study_argument.open_view(study, study_directory)
    findings = find(opened.view)
    if as_json:
        document = study_document(opened.view, findings, str(opened.directory))
        render.show_json({**document, "restore_command": opened.restore_command})
        return
    for line in render_summary(opened.view, findings, opened.directory):
        render.show(line)
    if opened.restore_command is not None:
        render.show(f"  server:      {explain_left_behind(opened)}")
    render.show_table(
        ("", "trial", "kind", "state", "configuration", "C=1 tok/s", "gain", "C=32 tok/s", "gain", "pass@1", "accept"),
        [_row(trial, opened.view, findings) for trial in opened.view.trials],
    )
    if findings.choice is not None:
        render.show("> recommended  * also on the front: no other trial is faster at both")
    for trial in opened.view.trials:
        if trial.reason:
            render.show(f"trial {trial.number} {trial.state.value}: {clean(trial.reason)}")


def explain_left_behind(opened: OpenedView) -> str:
    """Say who left the server as a trial had it, and how it comes back."""
    pid, deployment = read_holder(opened.directory), opened.view.settings.deployment
    # A tuner that ends by itself takes its number out of the lock, a killed one cannot.
    end = "the tuner has ended" if pid is None else f"the tuner (process {pid}) has died"
    what = f"{end} without putting back what was found"
    if deployment.kind != "systemd":
        return f"{what}: run {opened.restore_command}"
    lease = render_duration(deployment.lease_s)
    return (
        f"{what}; the host puts the baseline back by itself, at most {lease} after that: wait, or run "
        f"{opened.restore_command}"
    )


def render_summary(view: StudyView, findings: Findings, directory: Path) -> list[str]:
    """Say in a few lines where the study stands and what it recommends."""
    states = ", ".join(f"{count} {state.value}" for state, count in findings.states.items())
    lines = [
        f"Study {view.settings.name} in {directory}",
        f"  trials:      {view.counted} counted; {states or 'none yet'}",
        f"  time:        {render_duration(findings.time.total_s)} in {render_boots(findings.time)}",
    ]
    choice = findings.choice
    if choice is None:
        lines.append("  recommended: nothing yet: the baseline has not been measured")
    else:
        number = choice.trial.number
        speeds = choice.trial.objectives
        is_baseline = findings.baseline is not None and number == findings.baseline.number
        gains = [
            "" if is_baseline else f", {render_gain_with_interval(found.get(number))} against the baseline"
            for found in (findings.gains_c1, findings.gains_c32)
        ]
        pooled = f", {findings.baseline_boots} boots pooled" if findings.baseline_boots > 1 else ""
        proof = judge_proof(choice.trial, findings)
        itself = f" (the baseline{pooled})" if is_baseline else "" if proof is None else f" ({proof.verdict})"
        lines += [
            f"  recommended: trial {number}{itself}, {view.space.describe(choice.trial.configuration)}",
            f"  why:         {choice.reason}",
            *([] if proof is None else [f"  gain:        {proof}"]),
            f"  C=1:         {render_figure(speeds.tokens_per_s_c1)} tokens/s{gains[0]}",
            f"  C=32:        {render_figure(speeds.tokens_per_s_c32)} tokens/s{gains[1]}",
            f"  pass@1:      {render_share(speeds.pass_at_1)}",
        ]
    if findings.confirmations and not findings.confirmations[-1].is_decided:
        lines.append(f"  confirming:  {describe_verdict(findings.confirmations[-1])}")
    lines.append(f"  noise:       {render_noise(findings.noise)}")
    lines += [f"  drift:       {sentence}" for sentence in render_drifts(findings)]
    return lines


def _row(trial: TrialRecord, view: StudyView, findings: Findings) -> tuple[str, ...]:
    accept = accept_length(trial, 32) or accept_length(trial, 1)
    speeds = findings.shown(trial).objectives
    return (
        ">" if findings.is_recommended(trial) else "*" if findings.is_on_front(trial) else "",
        str(trial.number),
        trial.kind.value,
        trial.state.value,
        view.space.describe(trial.configuration),
        UNKNOWN if speeds.tokens_per_s_c1 is None else render_number(speeds.tokens_per_s_c1.value),
        render_gain(findings.gains_c1.get(trial.number)),
        UNKNOWN if speeds.tokens_per_s_c32 is None else render_number(speeds.tokens_per_s_c32.value),
        render_gain(findings.gains_c32.get(trial.number)),
        UNKNOWN if speeds.pass_at_1 is None else f"{100 * speeds.pass_at_1.value:.0f}%",
        UNKNOWN if accept is None else render_number(accept),
    )
