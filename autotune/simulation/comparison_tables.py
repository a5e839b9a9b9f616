"""How is a comparison written for people? Tables of a few figures each, for a terminal and for a page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.simulation.summary import (
    Comparison,
    Mean,
    Read,
    breaks_rule_of,
    high_hypervolume_regret_of,
    own_hypervolume_regret_of,
    regret_of,
)

UNKNOWN = "-"
_BOOTS = (3, 4, 5, 6, 8)
"""Starts of the server after which a search that knows much beforehand is looked at."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: what it shows, in a sentence.
        headers: of its columns.
        rows: one for each method.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_markdown(table: Table) -> str:
    """Write a table for a page, its title above it.

    >>> print(render_markdown(Table("Ages", ("name", "age"), (("Ada", "36"),))))
    Ages:
    <BLANKLINE>
    | name | age |
    | --- | --- |
    | Ada | 36 |
    """
    lines = [table.headers, ("---",) * len(table.headers), *table.rows]
    return "\n".join([f"{table.title}:", "", *(f"| {' | '.join(line)} |" for line in lines)])


def tabulate(
    comparison: Comparison,
    methods: Sequence[str],
    stock: Sequence[str],
    surfaces: Sequence[str],
    budgets: Sequence[int],
) -> tuple[Table, ...]:
    """Return all tables of a comparison.

    Args:
        comparison: its nights.
        methods: in the order of the rows.
        stock: those of them that ours are measured by: the best of them at the largest budget up to 20.
        surfaces: in the order of the columns.
        budgets: trials after which is looked, ascending.
    """
    middle = max((budget for budget in budgets if budget <= 20), default=budgets[0])
    tables = [
        _by_budget(comparison, methods, stock, budgets, middle, read, name)
        for read, name in (
            (regret_of, "Regret of the recommended configuration, % of its speed"),
            (own_hypervolume_regret_of, "Hypervolume regret, %, reference of the study"),
            (high_hypervolume_regret_of, "Hypervolume regret, %, reference that a fifth does not reach"),
        )
    ]
    tables.append(_by_surface(comparison, methods, surfaces, middle))
    tables.append(_by_boots(comparison, methods))
    tables.append(_waste(comparison, methods, surfaces, middle))
    return tuple(tables)


def _by_budget(
    comparison: Comparison,
    methods: Sequence[str],
    stock: Sequence[str],
    budgets: Sequence[int],
    middle: int,
    read: Read,
    name: str,
) -> Table:
    """Return the means after each budget and the paired differences from the best stock method."""
    best = comparison.best(stock, read, middle)
    against = [] if best is None else [*((budget, budget) for budget in budgets), (budgets[0], middle)]
    headers = ["method", "nights", *(f"{budget} trials" for budget in budgets)]
    headers += [
        f"minus {best} at {ours}" if ours == theirs else f"at {ours} minus {best} at {theirs}"
        for ours, theirs in dict.fromkeys(against)
    ]
    rows = []
    for method in methods:
        means = [comparison.mean(method, read, budget) for budget in budgets]
        differences = [
            comparison.difference(method, best, read, pair) if best is not None else None
            for pair in dict.fromkeys(against)
        ]
        nights = str(max((mean.count for mean in means if mean is not None), default=0))
        rows.append((method, nights, *map(_percent, means), *(_percent(each, sign=True) for each in differences)))
    return Table(
        f"{name}, mean ± standard error; differences in pairs of one surface and seed", tuple(headers), tuple(rows)
    )


def _by_surface(comparison: Comparison, methods: Sequence[str], surfaces: Sequence[str], budget: int) -> Table:
    return Table(
        f"Regret of the recommended configuration after {budget} trials, %, by surface",
        ("method", *surfaces),
        tuple(
            (method, *(_percent(comparison.mean(method, regret_of, budget, surface)) for surface in surfaces))
            for method in methods
        ),
    )


def _by_boots(comparison: Comparison, methods: Sequence[str]) -> Table:
    return Table(
        "Regret of the recommended configuration, %, after so many starts of the server, those of the baseline included",
        ("method", *(f"{boots} boots" for boots in _BOOTS)),
        tuple(
            (method, *(_percent(comparison.mean_after_boots(method, regret_of, boots)) for boots in _BOOTS))
            for method in methods
        ),
    )


def _waste(comparison: Comparison, methods: Sequence[str], surfaces: Sequence[str], budget: int) -> Table:
    """Return what else a night costs: trials that could have been known not to start, and time to think."""
    with_obstacles = [
        surface
        for surface in surfaces
        if any(comparison.wasted_share(method, surface) is not None for method in methods)
    ]
    rows = []
    for method in methods:
        broken = comparison.mean(method, breaks_rule_of, budget)
        used = comparison.trials_used(method)
        thought_s = comparison.proposing_s(method)
        rows.append(
            (
                method,
                *(_share(comparison.wasted_share(method, surface)) for surface in with_obstacles),
                _share(None if broken is None else broken.value),
                UNKNOWN if used is None else f"{used:.1f}",
                UNKNOWN if thought_s is None else f"{thought_s:.2g} s",
            )
        )
    return Table(
        "Trials that met an obstacle of a kind met before, of those after the first; recommendations that lose more than "
        f"the study allows after {budget} trials; trials until the end of the night; processor time of one proposal",
        ("method", *(f"wasted on {surface}" for surface in with_obstacles), "lose too much", "trials", "a proposal"),
        tuple(rows),
    )


def _percent(mean: Mean | None, *, sign: bool = False) -> str:
    """Write a mean of shares in percent with its standard error.

    >>> _percent(Mean(0.1234, 0.005, 10)), _percent(Mean(0.1, None, 1), sign=True), _percent(None)
    ('12.3 ± 0.5', '+10.0', '-')
    """
    if mean is None:
        return UNKNOWN
    value = f"{100 * mean.value:+.1f}" if sign else f"{100 * mean.value:.1f}"
    return value if mean.error is None else f"{value} ± {100 * mean.error:.1f}"


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.0f} %"
