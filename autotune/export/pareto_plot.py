"""How trials look as points: speed at C=1 against speed at C=32, drawn as one SVG without scripts (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from autotune.export.points import Mark, Point

WIDTH, HEIGHT = 860, 500
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 20, 56


def render_pareto_plot(points: Sequence[Point]) -> str:
    """Draw the points, the front's staircase and the lines of the baseline; an empty string without points."""
    xs = [point.x for point in points if point.x is not None]
    ys = [point.y for point in points if point.y is not None]
    if not xs or not ys:
        return ""
    x_axis = _Axis.around(xs, LEFT, WIDTH - RIGHT)
    y_axis = _Axis.around(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">',
        "<title>Output tokens per second of every trial with both speeds, one user against 32 users</title>",
        *_draw_grid(x_axis, y_axis),
        *_draw_baseline(points, x_axis, y_axis),
        _draw_staircase(points, x_axis, y_axis),
    ]
    ordered = sorted(points, key=lambda point: (point.mark is Mark.FRONT, point.is_baseline, point.is_recommended))
    for point in ordered:
        parts += _draw_point(point, x_axis, y_axis)
    parts += _draw_labels(ordered, x_axis, y_axis)
    return "\n".join(part for part in [*parts, "</svg>"] if part)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = min(values), max(values)
        room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        return cls(max(low - room, 0.0) if low >= 0 else low - room, high + room, start, end)

    def place(self, value: float | None) -> float:
        """Return the pixel; an unknown value lies just inside the low end."""
        if value is None:
            return self.start + math.copysign(8.0, self.end - self.start)
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step) + 1)]


def _draw_grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    for tick in x_axis.ticks():
        x = x_axis.place(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        "one user (C=1), tokens/s</text>"
    )
    parts.append(
        f'<text class="axis" transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">'
        "32 users (C=32), tokens/s over all</text>"
    )
    return parts


def _draw_baseline(points: Sequence[Point], x_axis: _Axis, y_axis: _Axis) -> list[str]:
    baseline = next((point for point in points if point.is_baseline), None)
    if baseline is None or baseline.x is None or baseline.y is None:
        return []
    x, y = x_axis.place(baseline.x), y_axis.place(baseline.y)
    return [
        f'<path class="baseline-line" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>',
    ]


def _draw_staircase(points: Sequence[Point], x_axis: _Axis, y_axis: _Axis) -> str:
    """Draw what the front dominates: the union of each point's rectangle towards the origin."""
    members = sorted((p.x, p.y) for p in points if p.mark is Mark.FRONT and p.x is not None and p.y is not None)
    if not members:
        return ""
    bottom = HEIGHT - BOTTOM
    edge = f"M{LEFT} {y_axis.place(members[0][1]):.1f}"
    edge += "".join(f"V{y_axis.place(y):.1f}H{x_axis.place(x):.1f}" for x, y in members) + f"V{bottom}"
    return f'<path class="dominion" d="{edge}H{LEFT}z"/><path class="staircase" d="{edge}"/>'


def _draw_point(point: Point, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    x, y = x_axis.place(point.x), y_axis.place(point.y)
    parts = [f'<g class="{point.mark.value}{" is-baseline" if point.is_baseline else ""}">']
    parts.append(f"<title>{escape(point.title)}</title>")
    if point.mark is Mark.FRONT or point.is_baseline:
        if point.x_interval is not None:
            low, high = (x_axis.place(bound) for bound in point.x_interval)
            parts.append(f'<path class="interval" d="M{low:.1f} {y:.1f}H{high:.1f}"/>')
        if point.y_interval is not None:
            low, high = (y_axis.place(bound) for bound in point.y_interval)
            parts.append(f'<path class="interval" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
    if point.is_recommended:
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="13"/>')
    parts.append(f'<path class="mark" d="{_shape(point, x, y)}"/></g>')
    return parts


def _shape(point: Point, x: float, y: float) -> str:
    """A diamond is the baseline, a square plain decoding, a triangle the chain, a cross a pruned trial, a dot a tree."""
    if point.mark is Mark.PRUNED:
        return f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    if point.is_baseline or point.mark is Mark.ANOTHER_BOOT:
        return f"M{x:.1f} {y - 8:.1f}l8 8l-8 8l-8 -8z"
    if point.arm == "plain":
        return f"M{x - 5.5:.1f} {y - 5.5:.1f}h11v11h-11z"
    if point.arm == "chain":
        return f"M{x:.1f} {y - 7:.1f}l6.5 12h-13z"
    return f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"


def _draw_labels(points: Sequence[Point], x_axis: _Axis, y_axis: _Axis) -> list[str]:
    """Write the numbers of front and baseline, each where it covers no other label and no other point."""
    taken = [(x_axis.place(point.x) - 6, y_axis.place(point.y) - 6, 12.0, 12.0) for point in points]
    parts = []
    named = [
        p
        for p in points
        if p.mark is Mark.FRONT or p.is_baseline or (p.arm in {"plain", "chain"} and p.mark is not Mark.ANOTHER_BOOT)
    ]
    for point in sorted(named, key=lambda point: not point.is_recommended):
        words = point.label
        if point.is_baseline:
            words += " baseline"
        elif point.arm in {"plain", "chain"}:
            words += f" {point.arm}"
        x, y = x_axis.place(point.x), y_axis.place(point.y)
        width = 7.2 * len(words)
        places = [(x + 10, y - 8), (x + 10, y + 16), (x - width - 10, y - 8), (x - width - 10, y + 16), (x + 15, y + 4)]
        inside = [place for place in places if place[0] > LEFT and place[0] + width < WIDTH - RIGHT] or places
        best = min(
            inside, key=lambda place: sum(_overlap((place[0], place[1] - 11, width, 14.0), box) for box in taken)
        )
        taken.append((best[0], best[1] - 11, width, 14.0))
        kind = " strong" if point.is_recommended else ""
        parts.append(f'<text class="name{kind}" x="{best[0]:.1f}" y="{best[1]:.1f}">{escape(words)}</text>')
    return parts


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> float:
    width = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    height = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
