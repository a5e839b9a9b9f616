from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.found_configuration import find_flag, read_configuration
from autotune.search_space import load_search_space

SPACES = {name: load_search_space(name) for name in ("ddtree", "ddtree_sglang", "ddtree_v2", "dflash", "dflash_tree")}
SGLANG = SPACES["ddtree_sglang"]
COMMAND = ("python", "-m", "sglang.launch_server", "--model-path", "/models/k", "--port", "30000")


@given(st.data())
def test_every_configuration_is_read_back_from_what_it_renders(data):
    space = SPACES[data.draw(st.sampled_from(sorted(SPACES)))]
    configuration = data.draw(st.sampled_from(space.configurations))
    rendering = space.render_flags(configuration)
    environment = {name: value for name, value in rendering.environment.items() if value is not None}

    found = read_configuration(space, (*COMMAND, *rendering.arguments), environment)

    assert found.values == configuration
    assert (found.unknown, found.outside, found.contradictions) == ((), (), ())


@given(st.data())
def test_every_configuration_is_read_back_from_what_the_server_reports(data):
    space = SPACES[data.draw(st.sampled_from(sorted(SPACES)))]
    configuration = data.draw(st.sampled_from(space.configurations))
    rendering = space.render_flags(configuration)
    environment = {name: value for name, value in rendering.environment.items() if value is not None}

    found = read_configuration(
        space, (*COMMAND, *rendering.arguments), environment, dict(space.reported(configuration))
    )

    assert found.values == configuration
    assert found.contradictions == ()


def test_values_outside_the_space_are_read_and_named():
    arguments = (
        "--speculative-algorithm=DDTREE",
        "--speculative-ddtree-budget",
        "60",
        "--speculative-num-draft-tokens=4",
    )

    found = read_configuration(SGLANG, arguments, {"SGLANG_DDTREE_MAX_TOPK": "12"})

    assert found.values == {"budget": 60, "topk": 12, "window": None}
    assert found.outside == ("budget", "topk")
    assert found.derived["block"] == 4


def test_other_spellings_and_the_last_of_two_flags_count():
    arguments = (
        *("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8"),
        *("--speculative-dflash-draft-window-size", "2048", "--speculative-dflash-block-size", "8"),
        *("--speculative-ddtree-budget", "16"),
    )

    found = read_configuration(SGLANG, arguments, {})

    assert found.values == {"budget": 16, "topk": 6, "window": 2048}
    assert found.derived["block"] == 8


def test_plain_decoding_is_read_from_a_command_without_an_algorithm():
    found = read_configuration(
        SGLANG, (*COMMAND, "--speculative-num-draft-tokens", "8"), {"SGLANG_DDTREE_MAX_TOPK": "4"}
    )

    assert found.values == {"budget": 0, "topk": SGLANG.parameters["topk"].default, "window": None}
    assert found.unknown == ()


def test_a_value_that_nothing_tells_is_unknown_until_the_server_reports_it():
    arguments = ("--speculative-algorithm", "DDTREE")

    assert read_configuration(SGLANG, arguments, {}).unknown == ("budget",)
    found = read_configuration(SGLANG, arguments, {}, {"speculative_ddtree_budget": 7})
    assert found.values["budget"] == 7
    assert found.unknown == ()


def test_a_server_that_reports_something_else_than_is_written_is_contradicted():
    arguments = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16")

    found = read_configuration(SGLANG, arguments, {}, {"speculative_ddtree_budget": 12})

    assert found.contradictions == ("budget is written as 16, and the server reports 12",)


@pytest.mark.parametrize(
    ("words", "value"), [(("--a", "1"), "1"), (("--a=1",), "1"), (("--a", "--b"), ""), (("--ab", "1"), None)]
)
def test_a_flag_is_found_in_each_form(words, value):
    assert find_flag(words, "--a") == value
