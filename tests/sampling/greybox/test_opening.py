from __future__ import annotations

import numpy as np
import pytest

from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.opening import find_opening
from autotune.search_space import load_search_space
from tests.records import make_settings
from tests.sampling.greybox.small_surface import SPACE, Server, whole

ENCODING = Encoding(SPACE)


def open_with(*texts: str) -> str | None:
    """What is asked after the baseline (budget 16, topk 4) and some configurations."""
    server = Server()
    server.boot_all(texts)
    measured = np.array(sorted({ENCODING.row(trial.configuration) for trial in server.trials}), dtype=np.intp)  # type: ignore[type-var]
    candidates = np.setdiff1d(np.arange(len(ENCODING)), measured)
    row = find_opening(server.history(), measured, candidates, ENCODING)
    return None if row is None else SPACE.key(SPACE.configurations[row])


def test_each_arm_is_asked_once_as_near_to_the_baseline_as_can_be():
    assert open_with() == "budget=0,topk=4,window=none"
    assert open_with("budget=0") == "budget=15,topk=1,window=none"


def test_a_second_tree_has_another_budget_and_is_else_as_the_baseline():
    asked = open_with("budget=0", "budget=8,topk=1")

    assert asked is not None
    configuration = SPACE.parse(asked)
    assert whole(configuration, "budget") >= 32
    assert (configuration["topk"], configuration["window"]) == (4, None)


@pytest.mark.parametrize("tree", ["budget=32,topk=2", "budget=8,topk=8"])
def test_two_trees_an_octave_apart_are_enough(tree: str):
    assert open_with("budget=0", "budget=8,topk=1", tree) is None


def test_a_space_without_a_budget_is_opened_by_its_arms_and_by_distance():
    space = load_search_space("dflash")
    encoding = Encoding(space)
    settings = make_settings(search_space="dflash", baseline={})
    server = Server(settings=settings, space=space, speeds=lambda _configuration: (4.0, 7.0), tells_accept_length=False)
    seen: list[int] = [encoding.row(server.trials[0].configuration)]  # type: ignore[list-item]
    while True:
        measured = np.array(sorted(seen), dtype=np.intp)
        row = find_opening(server.history(), measured, np.setdiff1d(np.arange(len(encoding)), measured), encoding)
        if row is None:
            break
        seen.append(row)

    assert len(seen) == 3
    assert {encoding.arm_names[encoding.arm[row]] for row in seen} == {"plain", "chain"}
