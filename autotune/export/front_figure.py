"""The front as a plotly figure, for viewers that draw those; the report draws its own (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from plotly import graph_objects

from autotune.export.points import Mark, Point

_GREY, _BLUE, _AMBER = "#98a2ad", "#0b6bcb", "#b7791f"
_SYMBOLS = {"plain": "square", "chain": "triangle-up"}
_GROUPS = (
    ("stopped early", lambda point: point.mark is Mark.PRUNED and not point.is_baseline, _GREY),
    ("infeasible", lambda point: point.mark is Mark.INFEASIBLE and not point.is_baseline, _GREY),
    ("beaten by another", lambda point: point.mark is Mark.DOMINATED and not point.is_baseline, "#5c6875"),
    ("another boot of the baseline", lambda point: point.mark is Mark.ANOTHER_BOOT, _AMBER),
    ("on the front", lambda point: point.mark is Mark.FRONT and not point.is_baseline, _BLUE),
    ("baseline", lambda point: point.is_baseline, _AMBER),
)


def draw_front(points: Sequence[Point]) -> Any:
    """Return a plotly figure of every trial with both speeds: the feasible front, the rest greyed, the baseline marked."""
    figure = graph_objects.Figure()
    located = [point for point in points if point.x is not None and point.y is not None]
    front = sorted((point.x, point.y) for point in located if point.mark is Mark.FRONT)
    if front:
        figure.add_trace(
            graph_objects.Scatter(
                x=[x for x, _ in front],
                y=[y for _, y in front],
                mode="lines",
                line={"shape": "vh", "color": _BLUE, "width": 1.5},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    for name, belongs, colour in _GROUPS:
        members = [point for point in located if belongs(point)]
        if members:
            figure.add_trace(_draw_group(name, members, colour))
    figure.update_layout(
        title="Front of the feasible trials (constraints and pruning respected)",
        xaxis_title="one user (C=1), tokens/s",
        yaxis_title="32 users (C=32), tokens/s over all",
        template="plotly_white",
    )
    return figure


def _draw_group(name: str, members: Sequence[Point], colour: str) -> Any:
    labels = [f"{point.label} recommended" if point.is_recommended else point.label for point in members]
    has_labels = name in {"on the front", "baseline"}
    return graph_objects.Scatter(
        name=name,
        x=[point.x for point in members],
        y=[point.y for point in members],
        mode="markers+text" if has_labels else "markers",
        text=labels,
        textposition="top right",
        # Plotly reads a few HTML tags in hover texts.
        hovertext=[escape(point.title).replace("\n", "<br>") for point in members],
        hoverinfo="text",
        marker={
            "color": colour,
            "size": [15 if point.is_recommended else 10 for point in members],
            "symbol": [_symbol(point) for point in members],
        },
    )


def _symbol(point: Point) -> str:
    if point.is_baseline:
        return "diamond"
    if point.mark is Mark.ANOTHER_BOOT:
        return "diamond-open"
    if point.mark is Mark.PRUNED:
        return "x-thin-open"
    symbol = _SYMBOLS.get(point.arm or "", "circle")
    return symbol if point.mark is Mark.FRONT else f"{symbol}-open"
