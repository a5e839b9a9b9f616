from __future__ import annotations

from autotune.simulation.comparison_tables import render_markdown, tabulate
from autotune.simulation.summary import Comparison
from tests.simulation.test_summary import night

COMPARISON = Comparison(
    (
        night("random", 1, 0.5, 0.4, 0.3),
        night("random", 2, 0.5, 0.4, 0.2, surface="cliff", warned=(4, 2)),
        night("gp", 1, 0.5, 0.3, 0.2),
        night("gp", 2, 0.5, 0.3, 0.1, surface="cliff"),
        night("ours", 1, 0.5, 0.2, 0.1),
    )
)


def table(number: int):
    return tabulate(COMPARISON, ["random", "gp", "ours"], ["random", "gp"], ["roomy", "cliff"], [1, 2])[number]


def test_ours_is_compared_with_the_best_stock_method_at_equal_budgets_and_at_fewer_trials():
    regret = table(0)

    assert regret.headers == (
        "method",
        "nights",
        "1 trials",
        "2 trials",
        "minus gp at 1",
        "minus gp at 2",
        "at 1 minus gp at 2",
    )
    assert regret.rows == (
        ("random", "2", "40.0 ± 0.0", "25.0 ± 5.0", "+10.0 ± 0.0", "+10.0 ± 0.0", "+25.0 ± 5.0"),
        ("gp", "2", "30.0 ± 0.0", "15.0 ± 5.0", "+0.0 ± 0.0", "+0.0 ± 0.0", "+15.0 ± 5.0"),
        ("ours", "1", "20.0", "10.0", "-10.0", "-10.0", "+0.0"),
    )


def test_each_surface_has_a_column():
    assert table(3).headers == ("method", "roomy", "cliff")
    assert table(3).rows[0] == ("random", "30.0", "20.0")
    assert table(3).rows[2] == ("ours", "10.0", "-")


def test_waste_is_shown_where_an_obstacle_was_met():
    assert table(5).headers == ("method", "wasted on cliff", "lose too much", "trials", "a proposal")
    assert table(5).rows[0] == ("random", "50 %", "0 %", "2.0", "0.25 s")
    assert table(5).rows[1] == ("gp", "-", "0 %", "2.0", "0.25 s")


def test_every_table_is_a_table_on_a_page():
    for number in range(6):
        lines = render_markdown(table(number)).splitlines()
        assert len({line.count("|") for line in lines[2:]}) == 1
