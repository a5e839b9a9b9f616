"""Trees of the packaged search spaces."""

from __future__ import annotations

import pytest

from autotune.replay.tree_shape import TreeShape, choose_logger, find_shape, find_windows
from autotune.search_space import SearchSpace, load_search_space
from autotune.search_space_file import SearchSpaceFile

DDTREE = load_search_space("ddtree", proofs=frozenset({"best-first-tree"}))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("budget=12,topk=3,window=64", TreeShape(12, 3, 16, 64)),
        ("budget=40,topk=1", TreeShape(15, 1, 16, None)),
        ("budget=2,topk=8,window=none", TreeShape(2, 2, 16, None)),
        ("budget=0", None),
    ],
)
def test_a_tree_is_read_off_the_canonical_configuration(text: str, shape: TreeShape | None):
    assert find_shape(DDTREE, DDTREE.parse(text)) == shape


def test_a_width_that_the_server_takes_by_itself_is_not_known():
    space = load_search_space("ddtree_v2")

    assert find_shape(space, space.parse("budget=12")) is None
    assert choose_logger(space) is None


def test_the_log_is_one_of_all_ranks_of_the_widest_window_and_of_the_smallest_tree_that_has_them():
    assert choose_logger(DDTREE) == DDTREE.parse("budget=8,topk=8,window=none")
    unproven = load_search_space("ddtree")
    assert choose_logger(unproven) == unproven.parse("budget=1,topk=8,window=none")


def test_where_chains_cannot_be_logged_the_smallest_full_tree_logs():
    unproven = load_search_space("ddtree")

    logger = choose_logger(unproven, only_full_trees=True)

    assert logger is not None
    shape = find_shape(unproven, logger)
    assert shape is not None
    assert (shape.budget, shape.topk) == (shape.block, 8)


def test_without_none_the_largest_window_logs():
    data = {
        "name": "windows",
        "summary": "a budget, a width and a window",
        "parameters": {
            "budget": {"kind": "int", "low": 1, "high": 9, "default": 4, "flag": "--budget"}
            | {"reported_as": "speculative_ddtree_budget"},
            "topk": {"kind": "int", "low": 1, "high": 2, "default": 2, "environment": "K", "reported_as": "topk"},
            "draft": {"kind": "choice", "choices": [32, 128], "default": 32, "flag": "--window"}
            | {"reported_as": "speculative_draft_window_size"},
        },
        "derived": {"block": {"value": 8, "flag": "--block", "reported_as": "speculative_num_draft_tokens"}},
    }
    space = SearchSpace(SearchSpaceFile.model_validate(data))

    logger = choose_logger(space)

    assert logger is not None
    assert find_shape(space, logger) == TreeShape(1, 2, 8, 128)
    assert find_windows(space) == (32, 128)


def test_windows_are_those_that_are_not_all_of_the_context():
    assert find_windows(DDTREE) == (32, 64, 128, 256, 512)
