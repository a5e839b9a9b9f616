from __future__ import annotations

import random

import pytest

from autotune.ddtree.corpus import families
from autotune.ddtree.corpus.chats import function_turn
from autotune.ddtree.training.quality import draw_turns, is_right

GCD = next(family for family in families() if family.name == "gcd")
TURN = function_turn(random.Random(0), GCD)  # noqa: S311 - reproducible text, no secret


def test_the_corpus_own_answer_is_right():
    assert is_right(TURN.answer, TURN)


@pytest.mark.parametrize(
    "answer",
    [
        "no code at all",
        f"```python\ndef {TURN.tasks[0].signature}:\n    return 1\n```",
        f"```python\ndef {TURN.tasks[0].signature}:\n    return nothing\n```",
        "```python\ndef other(a, b):\n    return a\n```",
        f"```python\ndef {TURN.tasks[0].signature}\n```",
    ],
)
def test_a_wrong_answer_is_not_right(answer):
    assert not is_right(answer, TURN)


def test_every_family_is_asked_about_as_often_as_needed():
    turns = draw_turns(random.Random(0), families()[:3], ("Write `$s` that $D.",), 7)  # noqa: S311 - reproducible text, no secret

    assert len(turns) == 7
    assert {turn.tasks[0].family.name for turn in turns} == {family.name for family in families()[:3]}
