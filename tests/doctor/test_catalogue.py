"""The page explains every check as the catalogue does."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.doctor.catalogue import CHECKS, Area

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CHECKS)
def test_the_page_has_the_row_of_each_check(name):
    check = CHECKS[name]

    assert f"| {name} | {check.looks_at} | {check.advice} |\n" in PAGE


def test_the_page_has_no_row_of_a_check_that_is_gone():
    table = PAGE.split("## All checks", 1)[1]
    names = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]

    assert [name for name in names if name not in {"check", "---"}] == list(CHECKS)


def test_the_page_has_a_part_for_each_area():
    assert [line.removeprefix("### ").lower() for line in PAGE.splitlines() if line.startswith("### ")] == [
        area.value for area in Area
    ]
