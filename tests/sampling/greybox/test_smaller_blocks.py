"""What histograms of accepted lengths tell of smaller blocks, where the truth is that of a law."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.objectives import expected_cells
from autotune.sampling.base import History
from autotune.sampling.greybox.boots import Boot
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.smaller_blocks import read_smaller_blocks
from autotune.search_space import search_space_of
from autotune.simulation.imagined_study import StudyOutline, outline_study
from autotune.simulation.parametric import GOOD_DRAFTER
from autotune.trial import Configuration
from tests.records import make_trial
from tests.sampling.greybox.small_surface import SPACE as WITHOUT_BLOCKS
from tests.sampling.greybox.small_surface import measure, whole

SETTINGS = outline_study(StudyOutline("blocks", (1024,), (1, 2, 3, 4), (None,), (4, 8, 16), budget_step=2))
ENCODING = Encoding(search_space_of(SETTINGS))


def length_of(configuration: Configuration) -> float:
    return GOOD_DRAFTER.accept_length(*(whole(configuration, name) for name in ("budget", "topk", "block")))


def tell(*texts: str, steps: int = 100_000, encoding: Encoding = ENCODING) -> dict[str, Boot]:
    """Boot configurations; return what is told of others, by their keys."""
    boots, trials = [], []
    for number, text in enumerate(texts):
        configuration = encoding.space.parse(text)
        row = encoding.row(configuration)
        assert row is not None
        shape = [whole(configuration, name) for name in ("budget", "topk", "block")]
        reached = (1.0, *GOOD_DRAFTER.accepts_at_least(*shape), 0.0)
        counts = tuple(round(steps * (reached[at] - reached[at + 1])) for at in range(len(reached) - 1))
        length = GOOD_DRAFTER.accept_length(*shape)
        cells = [replace(measure(cell, 100.0, length), accepted_histogram=counts) for cell in expected_cells(SETTINGS)]
        trials.append(replace(make_trial(number, configuration=configuration), cells=tuple(cells)))
        boots.append(Boot(number, row, (1.0, 1.0), (0.0, 0.0), math.log(length), 0.0, is_whole=True))
    told = read_smaller_blocks(History(SETTINGS, tuple(trials), None), encoding, boots)
    return {encoding.space.key(encoding.space.configurations[boot.row]): boot for boot in told}


def test_a_boot_tells_of_every_smaller_block_within_what_it_says():
    told = tell("budget=32,topk=4,block=16")

    assert {text.rpartition("=")[2] for text in told} == {"4", "8"}
    for text, boot in told.items():
        assert boot.log_speeds == (None, None)
        assert boot.log_accept_length is not None
        true = math.log(length_of(ENCODING.space.parse(text)))
        assert abs(boot.log_accept_length - true) < 2 * boot.accept_deviation


def test_what_no_step_loses_is_told_exactly():
    """A chain of six tokens is the same in a block of 8."""
    (boot,) = (each for text, each in tell("budget=6,topk=1,block=16").items() if "block=8" in text)

    assert boot.log_accept_length == pytest.approx(math.log(GOOD_DRAFTER.accept_length(6, 1, 8)), abs=1e-3)
    assert boot.accept_deviation < 1e-3


def test_what_was_booted_itself_is_not_told():
    assert set(tell("budget=32,topk=4,block=16", "budget=32,topk=4,block=8")) == {
        ENCODING.space.key(ENCODING.space.parse("budget=32,topk=4,block=4"))
    }


def test_the_nearest_larger_block_speaks():
    both = tell("budget=32,topk=4,block=16", "budget=32,topk=4,block=8")
    alone = tell("budget=32,topk=4,block=8")

    assert [boot.log_accept_length for boot in both.values()] == [boot.log_accept_length for boot in alone.values()]


def test_few_steps_tell_less():
    few, many = (tell("budget=32,topk=4,block=16", steps=steps) for steps in (30, 100_000))

    assert all(few[text].accept_deviation > 1.2 * many[text].accept_deviation for text in many if "block=4" in text)


def test_without_a_histogram_nothing_is_told():
    assert tell("budget=32,topk=4,block=16", steps=0) == {}


def test_a_space_that_does_not_tune_the_block_asks_for_nothing():
    assert read_smaller_blocks(History(SETTINGS, (), None), Encoding(WITHOUT_BLOCKS), []) == ()


def test_a_smaller_block_that_a_rule_forbids_is_not_told_of():
    rule = "not (block == 8 and topk == 4)"
    outline = StudyOutline(
        "ruled", (1024,), (1, 2, 3, 4), (None,), (4, 8, 16), budget_step=2, rules=((rule, "so it is"),)
    )
    encoding = Encoding(search_space_of(outline_study(outline)))

    told = tell("budget=32,topk=4,block=16", encoding=encoding)

    assert {text.rpartition("=")[2] for text in told} == {"4"}
