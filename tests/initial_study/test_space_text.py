from __future__ import annotations

import tomllib

import pytest

from autotune.initial_study.space_text import TABLE, Change, inline_space
from autotune.packaged import find_packaged, list_packaged
from autotune.search_space import SearchSpace
from autotune.search_space_file import SearchSpaceFile


def read(name: str) -> str:
    path = find_packaged("search_spaces", f"{name}.toml")
    assert path is not None
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list_packaged("search_spaces"))
def test_a_space_inside_a_study_says_what_its_file_says_comments_too(name):
    text = read(name)

    inlined = inline_space(text, {})

    assert tomllib.loads(inlined)[TABLE] == tomllib.loads(text)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert [line for line in inlined.splitlines() if line.startswith("#")] == comments


def test_a_key_is_changed_with_its_reason_and_another_one_taken_out():
    changes = {
        ("parameters.budget", "high"): Change("7", "no trees"),
        ("derived.block", "reported_as"): Change(None, "it says something else"),
    }

    inlined = inline_space(read("ddtree_sglang"), changes)

    space = tomllib.loads(inlined)[TABLE]
    assert space["parameters"]["budget"]["high"] == 7
    assert "reported_as" not in space["derived"]["block"]
    assert "high = 7  # no trees" in inlined
    assert "# no reported_as: it says something else" in inlined


@pytest.mark.parametrize("without", [{"topk"}, {"window"}, {"topk", "window"}, {"accept_threshold_acc"}])
def test_what_is_left_out_leaves_a_space_without_it(without):
    inlined = inline_space(read("ddtree_sglang"), {}, without)

    space = SearchSpace(SearchSpaceFile.model_validate(tomllib.loads(inlined)[TABLE]))
    assert not without & {*space.names, *space.derived}
    assert {"plain", "chain", "tree"} == {space.arm(item) for item in space.configurations}
