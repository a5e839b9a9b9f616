from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.evaluation.extract import Rule, extract_code, has_definition, parse_blocks

RIGHT = "def f(x):\n    return x + 1"
FENCED = f"```python\n{RIGHT}\n```"


def value(code: str | None, argument: int = 1) -> object:
    """What the extracted ``f`` returns; the code is this file's own."""
    assert code is not None
    scope: dict[str, object] = {}
    exec(code, scope)  # noqa: S102 - written above
    function = scope["f"]
    assert callable(function)
    return function(argument)


def test_a_draft_in_the_reasoning_and_an_example_after_the_answer_are_not_taken():
    """case 52"""
    content = (
        "<think>First try:\n```python\ndef f(x):\n    return 0\n```\nno.</think>Here is the code\n"
        f"{FENCED}\nExample:\n```python\nprint(f(1))\n```\n"
    )

    found = extract_code(content, "f", finish_reason="stop")

    assert Rule.FENCED is found.rule
    assert found.code == RIGHT


@pytest.mark.parametrize(
    "content",
    [
        f"<think>a draft:\n{FENCED}\nand so on",
        f"◁think▷a draft:\n{FENCED}\nand so on",
        f"<think>one</think><think>two\n{FENCED}",
        "",
        "   \n",
    ],
)
def test_an_answer_cut_off_while_thinking_is_truncated_and_nothing_is_run(content):
    """case 54"""
    found = extract_code(content, "f", reasoning="hm", finish_reason="length")

    assert Rule.CUT_THINKING is found.rule
    assert found.rule.is_truncated
    assert found.code is None


def test_an_answer_cut_off_inside_its_fence_is_truncated_even_if_the_part_would_run():
    """case 54"""
    found = extract_code(f"<think>hm</think>```python\n{RIGHT}\n\ndef g(", "f", finish_reason="length")

    assert Rule.CUT_FENCE is found.rule
    assert found.code is None


def test_a_whole_draft_is_not_taken_when_the_prompt_opened_the_reasoning_and_nothing_closed_it():
    """case 54"""
    found = extract_code(f"I could write\n{FENCED}\nbut", "f", finish_reason="length", thinks=True)

    assert Rule.CUT_THINKING is found.rule


def test_a_whole_block_before_a_cut_explanation_is_taken():
    found = extract_code(f"{FENCED}\nThis adds on", "f", finish_reason="length")

    assert Rule.FENCED is found.rule
    assert found.code == RIGHT


def test_unfenced_code_that_was_cut_is_truncated():
    found = extract_code(RIGHT, "f", finish_reason="length")

    assert Rule.CUT_TEXT is found.rule


@pytest.mark.parametrize(
    "content",
    [
        "```def f(x): return x + 1\n```",
        "```Python\ndef f(x): return x + 1\n```",
        "```py3\ndef f(x): return x + 1\n```",
        '```python title="a.py"\ndef f(x): return x + 1\n```',
        "```\ndef f(x): return x + 1\n```",
        "```def f(x): return x + 1```",
        "~~~python\ndef f(x): return x + 1\n~~~",
        "````python\ndef f(x): return x + 1\n````",
        "```python \ndef f(x): return x + 1```",
        "```{.python}\ndef f(x): return x + 1\n```",
        "1. Do this:\n   ```python\n   def f(x): return x + 1\n   ```",
        "``` python\r\ndef f(x): return x + 1\r\n```\r\n",
        "```python:app/main.py\ndef f(x): return x + 1\n```",
        "```python showLineNumbers\ndef f(x): return x + 1\n```",
        "```Python 3\ndef f(x): return x + 1\n```",
        "```text/x-python\ndef f(x): return x + 1\n```",
        "```{.python .numberLines}\ndef f(x): return x + 1\n```",
        "```python def f(x): return x + 1\n```",
        "```python def f(x): return x + 1```",
        "```app/main.py\ndef f(x): return x + 1\n```",
        "```My file: main\ndef f(x): return x + 1\n```",
        "````markdown\n```python\ndef f(x): return x + 1\n```\n````",
        "````markdown\nHere:\n\n```\ndef f(x): return x + 1\n```\nDone.\n````",
        "```python\rdef f(x): return x + 1\r```",
    ],
)
def test_code_starts_at_its_first_word_whatever_the_fence_says(content):
    """case 56"""
    found = extract_code(content, "f", finish_reason="stop")

    assert Rule.FENCED is found.rule
    assert found.code is not None
    assert found.code.startswith("def f(x)")
    assert value(found.code) == 2


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    # wrap in ```\n    return x + 1",
        "def f(x):\n    '''\n    ```\n    f(1)\n    ```\n    '''\n    return x + 1",
        "def f(x):\n    '''\n    ```python\n    f(1)\n    ```\n    '''\n    return x + 1",
        "def f(x):\n    return x + len('</think>') - 7",
        "def f(x):\n    return x + len('<think>') - 6",
        "def f(x):\n    return x + len('a\u2028') - 1",
        "def f(x):\n    return x + len('\x0c')",
        "def f(x):\n    return x + len('\x85')",
        "\x0cdef f(x):\n    return x + 1",
        "import math\n\nif math:\n    def f(x):\n        return x + 1",
        "try:\n    import nothing_such\nexcept ImportError:\n    def f(x):\n        return x + 1",
        "from operator import invert as g, neg as f\ng = f\ndef h(x): pass",
        "f, g = (lambda x: x + 1), max",
    ],
)
@pytest.mark.parametrize("before", ["", "<think>hm</think>\n", "<think>```python\ndef f(x): pass\n```</think>\n"])
def test_code_comes_out_as_it_was_written(code, before):
    """case 56"""
    found = extract_code(f"{before}Here:\n```python\n{code}\n```\nDone.", "f", finish_reason="stop")

    assert Rule.FENCED is found.rule
    assert found.code == code
    assert value(found.code) in (2, -1)


def test_a_closing_tag_on_its_own_line_ends_the_reasoning_even_in_an_open_fence():
    content = f"maybe\n```python\ndef f(x):\n    return 0\n</think>\n{RIGHT}"

    found = extract_code(content, "f", finish_reason="stop")

    assert found.code is not None
    assert found.code.strip() == RIGHT


def test_a_closing_tag_between_two_fences_ends_the_reasoning():
    assert extract_code(f"hm\n```python\nx = 0\n```</think>{FENCED}", "f").code == RIGHT


def test_an_example_that_imports_the_name_is_not_the_answer():
    assert extract_code(f"{FENCED}\n```python\nfrom answer import f\nprint(f(1))\n```", "f").code == RIGHT


def test_a_hostile_tag_costs_little():
    started_s = time.process_time()

    extract_code("```python" + ' a="b"' * 4000 + f" !x\n{RIGHT}\n```", "f")
    extract_code("```ruby" + ' a="b"' * 40 + f" !x\n{RIGHT}\n```", "f")

    assert time.process_time() - started_s < 1


@pytest.mark.parametrize("closing", ["</think>", "◁/think▷", "</THINK>"])
def test_everything_before_a_closing_tag_alone_is_reasoning(closing):
    content = f"maybe\n```python\ndef f(x):\n    return 0\n```\n{closing}\n{FENCED}"

    assert extract_code(content, "f").code == RIGHT


def test_reasoning_in_kimis_tags_is_removed():
    content = f"◁think▷```python\ndef f(x): return 0\n```◁/think▷{FENCED}"

    assert extract_code(content, "f").code == RIGHT


def test_text_before_a_tagged_pair_is_kept():
    assert extract_code(f"{FENCED}\n<think>was that right?</think>Done.", "f").code == RIGHT


def test_the_last_block_that_defines_the_name_is_taken():
    content = f"```python\ndef f(x):\n    return 0\n```\nBetter:\n{FENCED}\nHelper:\n```python\ndef g():\n    pass\n```"

    assert extract_code(content, "f").code == RIGHT


def test_a_tagged_fence_inside_an_open_block_starts_the_next_one():
    content = f"```python\nprint(1)\n{FENCED}"

    assert extract_code(content, "f").code == RIGHT


def test_a_finished_answer_without_closing_fence_is_taken_and_said():
    found = extract_code(f"```python\n{RIGHT}\n", "f", finish_reason="stop")

    assert Rule.UNCLOSED_FENCE is found.rule
    assert found.code == RIGHT


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (RIGHT, RIGHT),
        (f"Sure, here it is:\n\n{RIGHT}\n\nThis adds one.", RIGHT),
        (f"Sure\nNote: done\n{RIGHT}\nExplanation\n", RIGHT),
        (f"import math\n\n{RIGHT}", f"import math\n\n{RIGHT}"),
        ("f = lambda x: x + 1", "f = lambda x: x + 1"),
    ],
)
def test_code_without_a_fence_is_found_in_prose(content, expected):
    found = extract_code(content, "f", finish_reason="stop")

    assert Rule.UNFENCED is found.rule
    assert found.code is not None
    assert expected == found.code.strip()


def test_an_answer_in_the_reasoning_channel_alone_is_scored():
    found = extract_code("", "f", reasoning=f"Thinking. Here:\n{FENCED}", finish_reason="stop")

    assert Rule.REASONING is found.rule
    assert found.code == RIGHT


def test_content_goes_before_the_reasoning_channel():
    found = extract_code(FENCED, "f", reasoning="```python\ndef f(x):\n    return 0\n```", finish_reason="stop")

    assert Rule.FENCED is found.rule
    assert found.code == RIGHT


def test_a_finished_answer_that_never_left_its_thinking_tag_is_scored():
    found = extract_code(f"<think>{FENCED}", "f", finish_reason="stop")

    assert Rule.REASONING is found.rule


@pytest.mark.parametrize(
    "content",
    [
        "I cannot help with that.",
        "```python\ndef g(x):\n    return x\n```",
        "```python\nclass Solution:\n    def f(self, x):\n        return x\n```",
        "The function f = something",
        "",
    ],
)
def test_an_answer_that_does_not_define_the_name_has_no_code(content):
    found = extract_code(content, "f", finish_reason="stop")

    assert Rule.NOTHING is found.rule
    assert found.code is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(): pass", True),
        ("async def f(): pass", True),
        ("class f: pass", True),
        ("f: object = abs", True),
        ("f = abs", True),
        ("def ff(): pass", False),
        ("if True:\n    def f(): pass", True),
        ("def g():\n    def f(): pass", False),
        ("class A:\n    f = 1", False),
        ("import f", False),
        ("import math as f", True),
        ("(f, g), h = a", True),
        ("g[f] = h.f = f", False),
        ("def f(:", True),
        ("print('def f')", False),
    ],
)
def test_a_definition_is_one_at_the_top_level(code, expected):
    assert expected == has_definition(code, "f")


@given(st.text(alphabet="`~ \nabdef():<>/thinkpyo◁▷x=+1", max_size=300), st.sampled_from(["stop", "length", None]))
def test_any_text_gives_code_or_a_reason_for_none(content, finish_reason):
    found = extract_code(content, "f", finish_reason=finish_reason)

    assert (found.code is None) == (found.rule.is_truncated or found.rule is Rule.NOTHING)
    assert not (found.rule.is_truncated and finish_reason != "length")


@given(st.lists(st.sampled_from(["```", "```python", "def f(x):", "    return 1", "", "text"]), max_size=30))
def test_blocks_hold_no_fence(lines):
    for block in parse_blocks("\n".join(lines)):
        assert not any(line.startswith("```") for line in block.code.splitlines())


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "```",
        "def f(x):\n",
        "(" * 50,
        "```python\n",
        "f = 1\n",
        "x = 1\n(```\n",
        "````\n```\n",
        "<think>```\n</think>",
    ],
)
def test_a_hostile_answer_costs_little(piece):
    started_s = time.process_time()

    extract_code(piece * (200_000 // len(piece)), "f")

    assert time.process_time() - started_s < 5


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        ("def g(x):\n    return x + 1\n\nprint(g(input()))", "def f(x):\n    return g(x)"),
        ("import math\nfrom operator import add", "def f(x):\n    return add(math.floor(x), 1)"),
        ("STEP = 1", "def f(x: int) -> int:\n    return x + STEP"),
        ("@staticmethod\ndef g(x):\n    return h(x)\ndef h(x):\n    return x + 1", "def f(x):\n    return g(x)"),
        ("def g(x):\n    return x\ndef f(x):\n    return 0\nassert f(1) == 9", "def f(x):\n    return g(x) + 1"),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_what_the_answer_needs_is_taken_from_the_other_fences_and_nothing_else(first, answer, is_before):
    fences = [f"```python\n{code}\n```" for code in (first, answer)]

    if is_before:
        found = extract_code("First:\n{}\nThen:\n{}\nDone.".format(*fences), "f", finish_reason="stop")
    else:
        found = extract_code("{1}\nwhere\n{0}\n".format(*fences), "f", finish_reason="stop")

    if is_before or "def f" not in first:  # else the last definition of the name is the other block's
        assert Rule.FENCED_PARTS is found.rule
        assert value(found.code) == 2


@pytest.mark.parametrize(
    ("other", "answer"),
    [
        ("x = [1, 2]\nprint(f(x))", "def f(x):\n    y = x + 1\n    return y"),
        ("def g(x):\n    return 0", "def g(x):\n    return x + 1\ndef f(x):\n    return g(x)"),
        ("max = None", "def f(x):\n    return max(x, x + 1)"),
        (
            "for i in range(3):\n    n = i",
            "def f(x):\n    try:\n        return n\n    except NameError as e:\n        return x + 1",
        ),
        ("def g(", "def f(x):\n    return x + 1 if x else g(x)"),
    ],
)
def test_nothing_is_added_to_an_answer_that_needs_nothing(other, answer):
    found = extract_code(f"```python\n{other}\n```\n```python\n{answer}\n```", "f", finish_reason="stop")

    assert Rule.FENCED is found.rule
    assert answer == found.code
    assert value(found.code) == 2


def test_an_unclosed_fence_that_was_cut_gives_no_parts():
    found = extract_code("```python\ndef f(x): return g(x)\n```\n```python\ndef g(x): ret", "f", finish_reason="length")

    assert Rule.CUT_FENCE is found.rule


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("◁think▷", "◁/think▷"),
        ("<seed:think>", "</seed:think>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
        ("[THINK]", "[/THINK]"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<|channel|>commentary to=x<|message|>", "<|channel|>final <|constrain|>json<|message|>"),
    ],
)
def test_the_markers_of_many_models_end_and_cut_their_thinking(opening, closing):
    """case 52, case 54"""
    draft = "```python\ndef f(x):\n    return 0\n```"
    if "constrain" in closing:
        closing = "<|channel|>final<|message|>"

    assert extract_code(f"{opening}{draft}{closing}Here:\n{FENCED}\n", "f", finish_reason="stop").code == RIGHT
    assert extract_code(f"{draft}\n{closing}\n{FENCED}", "f", finish_reason="stop").code == RIGHT
    assert extract_code(f"{opening}{FENCED}", "f", finish_reason="length").rule is Rule.CUT_THINKING


def test_a_list_in_code_is_no_marker():
    code = "def f(x):\n    think = x\n    return sum(\n[think]) + 1"

    assert extract_code(f"```python\n{code}\n```", "f").code == code


@pytest.mark.parametrize("quote", ["`", "'", '"'])
@pytest.mark.parametrize("tag", ["<think>", "</think>", "[THINK]", "◁/think▷"])
@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_tag_that_the_answer_speaks_of_is_no_marker(quote, tag, finish_reason):
    """case 52: what explains the code does not take it away."""
    said = f"{quote}{tag}{quote}"

    for content in (f"{FENCED}\nIt leaves {said} alone.", f"Without {said}:\n{FENCED}\nDone"):
        found = extract_code(content, "f", finish_reason=finish_reason)

        assert (found.rule, found.code) == (Rule.FENCED, RIGHT)


@pytest.mark.parametrize(
    "deep", ["a" + ".b" * 900, "1" + "+1" * 900, "a" + "()" * 900, "-" * 90 + "1", "a" + ".b" * 60_000]
)
def test_code_that_parses_but_is_nested_too_deeply_to_be_written_ends_no_evaluation(deep):
    helper = f"```python\ndef g(x):\n    return {deep}\n```"
    found = extract_code(f"{helper}\n```python\ndef f(x):\n    return g(x)\n```", "f")

    assert found.rule in (Rule.FENCED, Rule.FENCED_PARTS)
    assert found.code is not None
    assert "return g(x)" in found.code


def test_code_without_end_costs_no_time_here():
    content = "```python\n" + "x = 1\n" * 300_000 + f"{RIGHT}\n```\n```python\n" + "y = x\n" * 300_000 + "```"
    began_s = time.process_time()
    found = extract_code(content, "f")

    assert found.code is not None
    assert found.code.endswith(RIGHT)
    assert time.process_time() - began_s < 5
