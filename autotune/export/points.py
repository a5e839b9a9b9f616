"""Where each trial lies in the plane of both speeds, and what its point means, for every kind of plot (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from autotune.export.findings import Findings
from autotune.export.wording import known_bounds, render_figure
from autotune.trial import Figure, TrialKind, TrialState

if TYPE_CHECKING:
    from autotune.study_view import StudyView


class Mark(Enum):
    """What kind of point it is."""

    FRONT = "front"
    """No other trial beats it."""
    DOMINATED = "dominated"
    """Complete, but another trial is better at both."""
    ANOTHER_BOOT = "another-boot"
    """A single later boot of the baseline or of a leader, which are drawn pooled."""
    PRUNED = "pruned"
    """Stopped early."""
    INFEASIBLE = "infeasible"
    """It missed a constraint, or ended otherwise without being complete."""


@dataclass(frozen=True, slots=True)
class Point:
    """One trial in a plot.

    Attributes:
        label: the trial's number.
        x: tokens/s at C=1; ``None`` when nothing was measured there.
        y: tokens/s at C=32; the same.
        x_interval: 95 % interval of ``x``; ``None`` when unknown.
        y_interval: the same of ``y``.
        mark: what kind of point.
        arm: plain, chain or tree, where the search space names arms.
        is_baseline: the configuration found on the host.
        is_recommended: the one that would be exported.
        title: what a pointer resting on the point shows.
    """

    label: str
    x: float | None
    y: float | None
    x_interval: tuple[float, float] | None
    y_interval: tuple[float, float] | None
    mark: Mark
    arm: str | None
    is_baseline: bool
    is_recommended: bool
    title: str


def locate_points(view: StudyView, findings: Findings) -> list[Point]:
    """Return a point for every trial that measured anything; pooled boots of the baseline are one point.

    A trial that ended early lies where the contexts it measured put it: the baseline's speed times its gain on those.
    """
    points = []
    recommended = findings.choice.trial.number if findings.choice else None
    baseline = findings.baseline
    for trial in view.trials:
        is_baseline = baseline is not None and trial.number == baseline.number
        if trial.is_soak:
            continue
        speeds = baseline.objectives if is_baseline and baseline is not None else findings.shown(trial).objectives
        x, y = speeds.tokens_per_s_c1, speeds.tokens_per_s_c32
        if baseline is not None:
            x = x or _estimate(baseline.objectives.tokens_per_s_c1, findings.gains_c1.get(trial.number))
            y = y or _estimate(baseline.objectives.tokens_per_s_c32, findings.gains_c32.get(trial.number))
        if x is None and y is None:
            continue
        mark = {TrialState.PRUNED: Mark.PRUNED, TrialState.COMPLETE: Mark.DOMINATED}.get(trial.state, Mark.INFEASIBLE)
        is_repeat = trial.kind in (TrialKind.BASELINE, TrialKind.CONFIRMATION) and not is_baseline
        if is_repeat and mark is Mark.DOMINATED:
            mark = Mark.ANOTHER_BOOT
        title = f"trial {trial.number}, {trial.state.value}: {view.space.describe(trial.configuration)}"
        if is_baseline and findings.baseline_boots > 1:
            title += f"\nthe baseline, {findings.baseline_boots} boots pooled"
        elif mark is Mark.ANOTHER_BOOT:
            booted = None if trial.confirmation is None else trial.confirmation.leader
            title += f"\nanother boot of {'the baseline' if booted is None else f'trial {booted}'}"
        points.append(
            Point(
                label=str(trial.number),
                x=None if x is None else x.value,
                y=None if y is None else y.value,
                x_interval=known_bounds(x),
                y_interval=known_bounds(y),
                mark=Mark.FRONT if findings.is_on_front(trial) else mark,
                arm=view.space.arm(trial.configuration),
                is_baseline=is_baseline,
                is_recommended=trial.number == recommended,
                title=f"{title}\nC=1 {render_figure(x)} tokens/s\nC=32 {render_figure(y)} tokens/s",
            )
        )
    return points


def _estimate(baseline: Figure | None, gain: Figure | None) -> Figure | None:
    if baseline is None or gain is None:
        return None
    return Figure(baseline.value * gain.value, gain.count)
