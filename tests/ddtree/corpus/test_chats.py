from __future__ import annotations

import random
import re

import pytest

from autotune.ddtree.corpus import families
from autotune.ddtree.corpus.catalogue import held_out_families, trained_families
from autotune.ddtree.corpus.chats import (
    REQUESTS,
    UNSEEN_REQUESTS,
    conversation,
    corpus_part,
    corpus_sha256,
    draw_chat,
    function_turn,
    module_turn,
    render_chat,
)


def test_the_corpus_is_a_function_of_its_seed():
    first = [corpus_part(0, part, 30) for part in range(2)]

    assert corpus_sha256(first) == corpus_sha256([corpus_part(0, part, 30) for part in range(2)])
    assert corpus_sha256(first) != corpus_sha256([corpus_part(1, part, 30) for part in range(2)])
    assert first[0] != first[1]


def test_the_hash_of_the_first_chats_is_the_one_that_the_weights_were_trained_on():
    assert corpus_sha256([corpus_part(0, 0, 200)]) == "c12eb15382660ca41963dd185e3e6462aa4206c82db35f4ace434a8b5071763b"


def test_chats_are_turns_of_user_and_bot_that_end():
    turn = r"<\|user\|>[^|]*(?:\|[^|>]*)*?<\|bot\|>.*?```python\n.*?```<\|end\|>"

    for chat in corpus_part(3, 0, 50):
        assert re.fullmatch(rf"(?:{turn})+", chat, re.DOTALL), chat


def test_no_held_out_family_is_trained_on():
    held_out = {family.name for family in held_out_families()}
    rng = random.Random(0)  # noqa: S311 - reproducible text, no secret

    for _ in range(300):
        for turn in draw_chat(rng, trained_families()):
            assert not held_out & {task.family.name for task in turn.tasks}


def test_no_request_wording_is_both_trained_and_unseen():
    assert not set(REQUESTS) & set(UNSEEN_REQUESTS)


@pytest.mark.parametrize("requests", [REQUESTS, UNSEEN_REQUESTS])
def test_a_request_has_no_placeholder_left_and_names_the_function(requests):
    rng = random.Random(1)  # noqa: S311 - reproducible text, no secret

    for family in families():
        turn = function_turn(rng, family, requests)
        assert not re.search(r"\$[a-zA-Z]", turn.text), turn.text
        assert turn.tasks[0].name in turn.request
        assert f"def {turn.tasks[0].signature}:" in turn.answer


def test_a_docstring_repeats_what_was_asked():
    rng = random.Random(2)  # noqa: S311 - reproducible text, no secret
    asked = [function_turn(rng, family) for family in families() for _ in range(3)]
    documented = [turn for turn in asked if '    """' in turn.answer]

    assert len(documented) > 50
    for turn in documented:
        sentence = re.search(r'"""(.*?)\."""', turn.answer)
        assert sentence is not None
        assert sentence.group(1)[1:] in turn.request, turn.text


def test_a_module_has_the_functions_asked_for_in_order():
    turn = module_turn(random.Random(4), trained_families(), 6)  # noqa: S311 - reproducible text, no secret

    assert [task.name for task in turn.tasks] == re.findall(r"^def (\w+)\(", turn.answer, re.MULTILINE)


@pytest.mark.parametrize("longest", [600, 2500, 5200])
def test_a_conversation_has_several_turns_and_stays_within_its_length(longest):
    chats = [conversation(random.Random(seed), trained_families(), longest) for seed in range(40)]  # noqa: S311 - reproducible text, no secret

    assert all(len(turns) == 1 or len(render_chat(turns)) <= longest for turns in chats)
    assert max(len(turns) for turns in chats) > 1
