from __future__ import annotations

import numpy as np
import pytest

from autotune.packaged import list_packaged
from autotune.sampling.greybox.encoding import Encoding
from autotune.search_space import SearchSpace, load_search_space
from autotune.search_space_file import parse_search_space_file
from tests.sampling.greybox.small_surface import SPACE

ENCODING = Encoding(SPACE)


@pytest.mark.parametrize("name", list_packaged("search_spaces"))
def test_every_configuration_of_every_space_has_a_row_of_its_own_between_0_and_1(name: str):
    space = load_search_space(name)
    encoding = Encoding(space)

    rows = [encoding.row(configuration) for configuration in space.configurations]

    assert rows == list(range(len(encoding)))
    assert encoding.x.min() >= 0
    assert encoding.x.max() <= 1
    distinct = np.unique(np.concatenate((encoding.x, encoding.arm[:, None]), axis=1), axis=0)
    assert len(distinct) == len(encoding)
    assert encoding.is_plain.any()


def test_numbers_that_reach_far_are_spaced_by_their_logarithm():
    column = {budget: ENCODING.x[ENCODING.row(SPACE.resolve({"budget": budget})), 0] for budget in (1, 3, 7, 15, 31)}

    steps = np.diff(list(column.values()))

    assert steps == pytest.approx([steps[0]] * 4)


def test_an_ordered_choice_goes_by_its_place_and_none_is_largest():
    places = [
        ENCODING.x[ENCODING.row(SPACE.resolve({"window": window})), 2] for window in (32, 64, 128, 256, 512, None)
    ]

    assert places == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_amounts_are_numbers_as_they_are_and_no_window_is_twice_the_largest():
    budgets = [ENCODING.amounts[ENCODING.row(SPACE.resolve({"budget": budget})), 0] for budget in (0, 16, 32, 64)]
    windows = [ENCODING.amounts[ENCODING.row(SPACE.resolve({"window": window})), 2] for window in (32, 512, None)]

    assert budgets == pytest.approx([0, 0.25, 0.5, 1])
    assert windows == pytest.approx([0, 480 / 992, 1])
    assert ENCODING.amounts.shape == ENCODING.sizes.shape


def test_words_have_no_order():
    text = """
name = "words"
[parameters.backend]
kind = "choice"
choices = ["triton", "fa3", "flashinfer"]
default = "fa3"
flag = "--backend"
"""
    encoding = Encoding(SearchSpace(parse_search_space_file(text, "words.toml")))

    assert encoding.sizes.shape == (3, 0)
    assert encoding.x.tolist() == np.eye(3).tolist()
    assert encoding.budget is None


def test_a_chain_is_no_longer_than_its_block():
    space = load_search_space("ddtree")  # nothing proven: nothing merged
    encoding = Encoding(space)
    assert encoding.budget is not None
    long = encoding.row(space.resolve({"budget": 64, "topk": 1}))

    assert encoding.budget[long] == 15


def test_a_configuration_of_another_space_has_no_row():
    assert ENCODING.row({"budget": 999, "topk": 1, "window": None}) is None
    assert ENCODING.row({"other": 1}) is None
