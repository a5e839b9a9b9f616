"""Judgements on the server that answers, by value."""

from __future__ import annotations

import pytest

from autotune.api_key import ApiKey
from autotune.deployment.data_path import PathMeasurement
from autotune.doctor.finding import Level
from autotune.doctor.server import (
    judge_api_key,
    judge_batch_limits,
    judge_flags,
    judge_path,
    judge_probe,
    judge_thresholds,
    judge_traffic,
    judge_version,
)
from autotune.errors import BaselineError, MeasurementError, UserError
from autotune.servers.base import Phase, Probe


@pytest.mark.parametrize(("requests", "level"), [(None, Level.WARNING), (0, Level.OK), (4, Level.WARNING)])
def test_requests_of_others_are_said_and_not_knowing_of_them_too(requests, level):
    assert judge_traffic(requests).level is level


@pytest.mark.parametrize(
    ("key", "command", "level", "words"),
    [
        (None, ("srv",), Level.OK, "wants none"),
        (None, ("srv", "--api-key", "sk-1"), Level.PROBLEM, "the study names none"),
        (ApiKey("sk-1"), ("srv", "--api-key", "sk-1"), Level.OK, "it is the one"),
        (ApiKey("sk-1"), ("srv", "--api-key=sk-2"), Level.PROBLEM, "is not the one"),
        (ApiKey("sk-1"), ("sglang::scheduler",), Level.OK, "does not say"),
    ],
)
def test_a_key_is_compared_with_the_server_s_and_never_shown(key, command, level, words):
    judged = judge_api_key(key, command)

    assert (judged.level, words in judged.found) == (level, True), judged
    assert "sk-" not in str(judged)


@pytest.mark.parametrize("phase", [Phase.REFUSED, Phase.UNREADY])
def test_a_server_without_a_generation_is_no_baseline(phase):
    """Case 3: that an endpoint answers does not mean that the server generates."""
    judged = judge_probe(Probe(phase, "status 503"))

    assert (judged.level, judged.branch) == (Level.PROBLEM, BaselineError)
    assert "status 503" in judged.found


def test_a_generation_is_ok():
    assert judge_probe(Probe(Phase.READY, "generated 'a + b'")).level is Level.OK


def test_other_flags_than_those_of_the_file_are_the_file_s_fault():
    judged = judge_flags(("budget is 8, asked for 16",))

    assert (judged.level, judged.branch) == (Level.PROBLEM, UserError)
    assert judge_flags(()).level is Level.OK


@pytest.mark.parametrize(
    ("effective", "level"),
    [
        ({}, Level.SKIPPED),
        ({"speculative_accept_threshold_single": 1.0, "speculative_accept_threshold_acc": 1}, Level.OK),
        ({"speculative_accept_threshold_single": 0.8, "speculative_accept_threshold_acc": 1.0}, Level.WARNING),
        ({"speculative_accept_threshold_acc": 0.9}, Level.WARNING),
    ],
)
def test_a_threshold_below_one_changes_answers(effective, level):
    assert judge_thresholds(effective).level is level


@pytest.mark.parametrize(
    ("effective", "level"),
    [
        ({}, Level.SKIPPED),
        ({"max_running_requests": 48, "cuda_graph_max_bs": 32}, Level.OK),
        ({"max_running_requests": 16}, Level.WARNING),
        ({"max_running_requests": 48, "cuda_graph_max_bs": 8}, Level.WARNING),
        ({"cuda_graph_max_bs_decode": 64, "cuda_graph_max_bs": 8}, Level.OK),
        ({"max_running_requests": None}, Level.SKIPPED),
    ],
)
def test_limits_below_the_busiest_cell_are_said(effective, level):
    assert judge_batch_limits(effective, 32).level is level


def test_a_slow_way_is_refused_where_there_is_a_shorter_one():
    slow, quick = PathMeasurement(0.05, 0.04, 0.06, 40, 30.0), PathMeasurement(0.002, 0.001, 0.003, 40)

    assert judge_path(quick, 5.0, is_here=False).level is Level.OK
    assert judge_path(slow, 5.0, is_here=True).level is Level.WARNING
    refused = judge_path(slow, 5.0, is_here=False)
    assert (refused.level, refused.branch) == (Level.PROBLEM, MeasurementError)
    assert "round trip 50.0 ms (40.0 to 60.0, 40 of them), 30 chunks/s: 1.00 % of a request of 5.0 s" in refused.found


@pytest.mark.parametrize("is_here", [True, False])
def test_a_way_that_may_be_fast_enough_is_a_warning_that_says_what_to_do(is_here):
    unsure = judge_path(PathMeasurement(0.02, 0.01, 0.06, 40), 5.0, is_here=is_here)

    assert unsure.level is Level.WARNING
    assert "cannot be told" in unsure.found
    assert "ask again" in (unsure.advice or "")


def test_a_version_that_is_not_said_is_unknown():
    assert judge_version({"version": "0.5.15"}).found == "0.5.15"
    assert judge_version({}).level is Level.SKIPPED
