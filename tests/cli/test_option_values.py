"""Durations, clock times and configurations as words."""

from __future__ import annotations

from datetime import datetime

import pytest

from autotune.cli.option_values import parse_assignments, parse_clock, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20m", 1200), ("20min", 1200), ("8h", 28800), ("0.5h", 1800), ("1h30m", 5400)]
)
def test_a_duration_is_read_with_its_units(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "8", "h", "8 hours", "-1h", "0s", "1h 30m", "1d", "nan", "1e3s", "٣h"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"write for example 90s|no time at all"):
        parse_duration(text)


def test_a_time_of_day_later_today_is_today():
    assert parse_clock("06:30", datetime.fromisoformat("2026-03-01T02:00")) == datetime.fromisoformat(
        "2026-03-01T06:30"
    )


@pytest.mark.parametrize(
    "now", [datetime.fromisoformat("2026-02-28T06:30"), datetime.fromisoformat("2026-02-28T22:00")]
)
def test_a_time_of_day_that_has_passed_is_tomorrow(now):
    assert parse_clock("6:30", now) == datetime.fromisoformat("2026-03-01T06:30")


@pytest.mark.parametrize("text", ["24:00", "6:60", "6", "06:3", "6.30", "", "06:30:00"])
def test_what_is_no_time_of_day_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write for example 06:30"):
        parse_clock(text, datetime.fromisoformat("2026-03-01T02:00"))


def test_assignments_keep_their_types():
    assert parse_assignments("a=1, b=2.5,c=none,d=true,e=x-y") == {"a": 1, "b": 2.5, "c": "none", "d": True, "e": "x-y"}


@pytest.mark.parametrize("text", ["", "budget", "budget=", "=4", "budget=1,", "budget=1,budget=2"])
def test_broken_assignments_are_refused_in_words(text):
    with pytest.raises(ValueError, match=r"name=value|stands twice"):
        parse_assignments(text)


@pytest.mark.parametrize("text", ["1_6", "\u0661\u0666", "\uff11\uff16", "1_0.5", "nan", "inf"])
def test_a_word_that_is_no_plain_number_stays_a_word(text):
    """The search space then refuses it by name."""
    assert parse_assignments(f"budget={text}") == {"budget": text}
