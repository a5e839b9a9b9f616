from __future__ import annotations

import pytest

from autotune.benchmark.latency_limits import LatencyLimits, parse_limits
from autotune.benchmark.saved_result import CellResult, PromptResult
from autotune.settings import CellSettings
from tests.records import make_cell

FAST = PromptResult(9, 11, 0.5, 1.5)  # 100 ms for each token after the first


@pytest.mark.parametrize(
    ("limits", "is_met"),
    [
        (LatencyLimits(), True),
        (LatencyLimits(ttft=0.5), True),
        (LatencyLimits(ttft=0.49), False),
        (LatencyLimits(tpot=0.11), True),
        (LatencyLimits(tpot=0.09), False),
        (LatencyLimits(request=1.5), True),
        (LatencyLimits(ttft=1.0, request=1.4), False),
    ],
)
def test_a_request_meets_all_limits_or_misses(limits: LatencyLimits, is_met: bool):
    assert limits.is_met(FAST) is is_met


def test_what_is_unknown_meets_no_limit():
    assert not LatencyLimits(ttft=9.0).is_met(PromptResult(9, 11, None, 1.0))
    assert not LatencyLimits(tpot=9.0).is_met(PromptResult(9, None, 0.1, 1.0))
    assert LatencyLimits(tpot=0.001).is_met(PromptResult(9, 1, 0.5, 0.5))


def test_requests_that_failed_miss_the_limits():
    limits = LatencyLimits(request=2.0)
    measured = make_cell(1, 100.0)
    assert measured.requests >= 2
    prompts = {str(index): FAST for index in range(measured.requests)}
    settings = CellSettings(context=128, concurrency=1)
    some = dict(list(prompts.items())[1:])

    assert limits.is_met_by(CellResult(settings, measured, prompts=prompts))
    assert not limits.is_met_by(CellResult(settings, measured, prompts=some))
    assert not limits.is_met_by(CellResult(settings, None, "failed"))
    assert limits.goodput_per_s(CellResult(settings, measured, prompts=some)) == len(some) / measured.duration_s
    assert limits.goodput_per_s(CellResult(settings, None, "failed")) is None


@pytest.mark.parametrize("text", ["", "ttft", "ttft=5", "ttft=0ms", "ttft=-1s", "e2e=1s", "ttft=1s,ttft=2s", "ttft=1h"])
def test_what_is_no_limit_is_refused(text: str):
    with pytest.raises(ValueError, match=r"write for example ttft=500ms|stands twice"):
        parse_limits(text)
