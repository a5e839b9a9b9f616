"""Parameters that change nothing in any cell."""

from __future__ import annotations

from autotune.exercise import find_unexercised
from autotune.search_space import SearchSpace
from autotune.search_space_file import SearchSpaceFile
from autotune.settings import StudySettings


def make_settings(contexts: tuple[int, ...] = (128, 512), temperature: float = 0.0) -> StudySettings:
    cells = [{"context": context, "concurrency": concurrency} for context in contexts for concurrency in (1, 32)]
    return StudySettings.model_validate(
        {
            "name": "x",
            "baseline": {},
            "benchmark": {"stages": [{"name": "all", "cells": cells}], "sampling": {"temperature": temperature}},
        }
    )


def make_space(parameters: dict[str, object], rules: list[dict[str, str]] | None = None) -> SearchSpace:
    return SearchSpace(
        SearchSpaceFile.model_validate({"name": "made", "parameters": parameters, "rules": rules or []}, strict=False)
    )


WINDOW = {"kind": "choice", "choices": [256, 1024, 4096, "none"], "default": "none", "omit": "none"}
BUDGET = {"kind": "int", "low": 0, "high": 4, "default": 2, "flag": "--budget", "omit": 0}
TOPK = {"kind": "int", "low": 1, "high": 4, "default": 1, "environment": "TOPK", "needs": "budget"}


def test_a_window_longer_than_every_context_acts_in_no_cell():
    space = make_space({"window": {**WINDOW, "flag": "--speculative-draft-window-size"}})

    assert find_unexercised(space, make_settings((128,))) == (
        "window acts in no cell: no context is longer than 128 tokens",
    )


def test_the_values_of_a_window_that_are_too_long_are_named():
    space = make_space({"window": {**WINDOW, "flag": "--w", "reported_as": "speculative_draft_window_size"}})

    assert find_unexercised(space, make_settings((128, 2048))) == (
        "window of 4096 acts in no cell: no context is longer than 2048 tokens",
    )
    assert find_unexercised(space, make_settings((128, 8192))) == ()


def test_a_threshold_acts_on_requests_that_are_not_greedy():
    choice = {"kind": "choice", "choices": [1, 2], "default": 1, "flag": "--speculative-accept-threshold-acc"}
    space = make_space({"threshold": choice})

    assert find_unexercised(space, make_settings(temperature=0.0)) == (
        "threshold acts on requests that are not greedy, and every cell has temperature 0",
    )
    assert find_unexercised(space, make_settings(temperature=0.7)) == ()


def test_topk_that_the_rules_leave_one_value_is_not_searched():
    space = make_space({"budget": BUDGET, "topk": TOPK}, [{"require": "budget == 0 or topk == 1", "because": "chain"}])

    assert find_unexercised(space, make_settings()) == (
        "topk has the one value 1 in every configuration where it acts, so nothing is searched",
    )
    assert find_unexercised(make_space({"budget": BUDGET, "topk": TOPK}), make_settings()) == ()


def test_limits_of_the_batch_beyond_the_busiest_cell_are_one_and_the_same():
    choice = {"kind": "choice", "choices": [16, 48, 64], "default": 48, "flag": "--max-running-requests"}

    assert find_unexercised(make_space({"running": choice}), make_settings()) == (
        "running of 48, 64 acts in no cell: no cell has more than 32 requests in flight",
    )
    choice["choices"] = [16, 48]
    assert find_unexercised(make_space({"running": choice}), make_settings()) == ()
