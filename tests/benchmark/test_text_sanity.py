from __future__ import annotations

import pytest

from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.text_sanity import (
    has_leaked,
    is_garbled,
    is_repeated,
    look_at_text,
    render_sanity,
)

CODE = """Here is the function.

```python
def f(values):
    total = 0
    for value in values:
        total += value
    return total
```

It adds one value after another; an empty list gives 0. Tabs\tand accents like é and 統 are text too.
"""


def record(
    text: str, *, reasoning: str = "", reason: str | None = "stop", prompt: str = "p", ok: bool = True
) -> RequestRecord:
    outcome = Outcome.OK if ok else Outcome.TRUNCATED
    return RequestRecord(prompt, 0, 1, 0.0, 1.0, outcome, finish_reason=reason, text=text, reasoning=reasoning)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CODE, False),
        ("no " * 100, True),
        (CODE + "I think that the answer is 3. " * 20, True),
        ("0" * 200, True),
        ("x = 1\n" * 10, False),
        ("- " + " ".join(str(number) for number in range(200)), False),
        ("=" * 60 + "\ntitle\n" + "=" * 60, False),
        ("", False),
        ("!" * 79, False),
        ("|---|---|---|\n| a | b | c |\n" * 2, False),
    ],
)
def test_a_loop_at_the_end_is_seen_and_code_is_none(text, expected):
    assert is_repeated(text) is expected


@pytest.mark.parametrize(
    ("content", "reasoning", "expected"),
    [
        (CODE, "", False),
        (CODE + "<|im_end|>", "", True),
        ("<｜end▁of▁sentence｜>", "", True),
        ("[INST] hello", "", True),
        ("<think>so</think>" + CODE, "", False),
        ("</think>" + CODE, "so", True),
        ("◁think▷" + CODE, "so", True),
        ('text.split("<|im_end|>")', "", False),
        ("a <b> c <|> d", "", False),
    ],
)
def test_marks_of_a_template_are_leaks_unless_code_quotes_them(content, reasoning, expected):
    assert has_leaked(content, reasoning) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CODE, False),
        ("\ufffd" * 10 + "hello", True),
        ("a\x00b\x01c\x02", True),
        (CODE + "\ufffd", False),
        ("", False),
        ("\ud800" * 5, True),
    ],
)
def test_characters_that_no_text_has_are_seen(text, expected):
    assert is_garbled(text) is expected


def test_text_that_looks_like_text_is_not_mentioned():
    sanity = look_at_text([record(f"{CODE}{index}", prompt=str(index)) for index in range(20)])

    assert not sanity.is_degenerate
    assert render_sanity(sanity) == ()
    assert sanity.finish_reasons == {"stop": 20}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("", "are empty"),
        ("the the " * 60, "repeat themselves at the end"),
        ("\ufffd" * 50, "hold characters that no text has"),
        (CODE, "are word for word those to other prompts"),
    ],
)
def test_a_configuration_with_many_such_answers_is_degenerate(bad, sentence):
    good = [record(f"{CODE}{index}", prompt=f"good {index}") for index in range(14)]

    sanity = look_at_text([*good, *[record(bad, prompt=f"bad {index}") for index in range(6)]])

    assert sanity.is_degenerate
    assert render_sanity(sanity)[0] == f"degenerate text: 6 of 20 answers {sentence}"


def test_a_few_odd_answers_are_told_and_condemn_nothing():
    texts = [record(f"{CODE}{index}", prompt=str(index)) for index in range(18)]

    sanity = look_at_text([*texts, record(CODE + "<|im_end|>"), record("")])

    assert not sanity.is_degenerate
    assert render_sanity(sanity) == ("1 of 20 answers are empty", "1 of 20 answers show marks of the chat template")


def test_an_answer_in_the_reasoning_channel_alone_is_not_empty():
    assert look_at_text([record("", reasoning="so it is 3")]).empty == 0


def test_reasons_that_end_no_answer_are_told():
    sanity = look_at_text([record("a"), record("b", reason="abort"), record("c", reason=None)])

    assert render_sanity(sanity) == (
        "1 of 3 answers ended with the reason 'abort'",
        "1 of 3 answers ended with the reason 'none'",
    )


def test_answers_that_failed_are_not_judged():
    sanity = look_at_text([record("", ok=False)])

    assert (sanity.answers, sanity.empty) == (0, 0)
    assert not sanity.is_degenerate
    assert render_sanity(sanity) == ()
