"""The page about the evaluation says what the code has: attacks, layers, verdicts."""

from __future__ import annotations

from pathlib import Path

from autotune.evaluation.sandbox import ADDED, DEMANDED
from autotune.trial import Verdict
from tests.evaluation.attacks import ATTACKS

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table under a heading, without its head."""
    lines = PAGE.partition(f"## {heading}\n")[2].splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("| "))
    found = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_every_attack_stands_in_the_table_with_its_first_wall_and_none_passed():
    table = rows("Attacks")

    assert [row[:2] for row in table] == [[attack.name, attack.stopped_by] for attack in ATTACKS]
    assert {verdict for row in table for verdict in row[2:]} <= {"wrong", "error", "timed out"}


def test_every_layer_stands_in_the_table_as_demanded_or_not():
    assert {row[0]: row[1] for row in rows("Isolation")} == {
        **dict.fromkeys(DEMANDED, "yes"),
        **dict.fromkeys(ADDED, "no"),
    }


def test_every_verdict_is_explained():
    assert [row[0] for row in rows("Verdicts")] == [verdict.value for verdict in Verdict]
