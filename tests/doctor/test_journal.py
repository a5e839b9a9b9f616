"""Judgements on the journal, by value."""

from __future__ import annotations

import pytest

from autotune.doctor.finding import Level
from autotune.doctor.journal import (
    RateLimit,
    find_limit,
    find_ready_after_s,
    judge_journal,
    judge_limits,
    parse_configuration,
    parse_span_s,
)
from tests.doctor.test_service import shown


@pytest.mark.parametrize(
    ("change", "lines", "level"),
    [
        ({}, 10, Level.OK),
        ({}, None, Level.OK),
        ({}, 0, Level.WARNING),
        ({"StandardOutput": "file:/var/log/sglang.log"}, 0, Level.PROBLEM),
        ({"StandardOutput": "null"}, 10, Level.PROBLEM),
        ({"StandardError": "append:/x"}, 10, Level.PROBLEM),
        ({"StandardOutput": "journal+console"}, 10, Level.OK),
        ({"LogNamespace": "llm"}, 10, Level.PROBLEM),
        ({"LogLevelMax": "4"}, 10, Level.WARNING),
        ({"LogLevelMax": "7"}, 10, Level.OK),
        ({"LogLevelMax": "-1"}, 10, Level.OK),
    ],
)
def test_the_log_of_a_start_must_be_in_the_journal(change, lines, level):
    assert judge_journal(shown(**change), lines).level is level


def test_the_limit_of_the_unit_comes_before_that_of_journald():
    unit = shown(LogRateLimitIntervalUSec="10s", LogRateLimitBurst="50")

    assert find_limit({"RateLimitBurst": "7"}, unit) == RateLimit(10.0, 50, "of the unit")
    assert find_limit({"RateLimitBurst": "7"}, shown()) == RateLimit(30.0, 7, "of journald.conf")
    assert find_limit({}, {}) == RateLimit(30.0, 10000, "by default")


def test_an_empty_setting_is_the_default():
    assert find_limit(parse_configuration("RateLimitBurst=\n"), {}).lines == 10000


@pytest.mark.parametrize(
    ("limit", "level"),
    [
        (RateLimit(30.0, 10000, ""), Level.OK),
        (RateLimit(30.0, 1000, ""), Level.WARNING),
        (RateLimit(0.0, 10, ""), Level.OK),
        (RateLimit(30.0, 0, ""), Level.OK),
    ],
)
def test_a_limit_that_a_loading_server_reaches_is_said(limit, level):
    assert judge_limits(limit).level is level


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("1min 30s", 90.0), ("500ms", 0.5), ("2h", 7200.0), ("5", 5.0), ("", None), ("infinity", None)],
)
def test_spans_are_read_as_systemd_writes_them(text, seconds):
    assert parse_span_s(text) == seconds


def test_the_load_time_is_that_of_the_first_ready_line():
    lines = (
        "1000.000000 gpu1 python3[7]: Load weight begin\n"
        "-- Boot --\n"
        "1615.250000 gpu1 python3[7]: [2026-01-01 00:00:00] The server is fired up and ready to roll!\n"
        "1700.000000 gpu1 python3[7]: The server is fired up and ready to roll!\n"
    )

    assert find_ready_after_s(lines, 1000.0) == 615.25
    assert find_ready_after_s("1.5 gpu1 python3[7]: loading\n", 1.0) is None
    assert find_ready_after_s("", 1.0) is None
