from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.evaluation.isolated_program import encode
from autotune.evaluation.result_code import decode, is_equal, render_result

HASHABLE = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.binary(max_size=5))
PLAIN = st.recursive(
    st.one_of(HASHABLE, st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(HASHABLE, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_every_plain_value_comes_back_and_equals_itself(value):
    encoded = json.loads(encode(value))
    decoded = decode(encoded)

    assert repr(sorted(map(repr, [value]))) == repr(sorted(map(repr, [decoded]))) or value == decoded
    assert type(value) is type(decoded)
    assert is_equal(value, encoded)


@pytest.mark.parametrize(
    "noise",
    [
        {"other": "object"},
        {"int": "zz"},
        {"list": 3},
        {"dict": [[1]]},
        {"a": 1, "b": 2},
        {"set": [{"list": []}]},
        [1],
        {"bytes": 7},
        {},
    ],
)
def test_noise_stands_for_no_value(noise):
    with pytest.raises(ValueError, match=r"no (encoded )?value|not enough values|invalid|too deeply|unpack"):
        decode(noise)


def test_a_result_nested_without_end_stands_for_no_value():
    noise: object = 1
    for _ in range(200):
        noise = {"list": [noise]}

    with pytest.raises(ValueError, match="too deeply"):
        decode(noise)


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (1, True, True),
        (True, 1, True),
        (1, 1.0, True),
        (1.0, 1, True),
        (1.0, 1.0000001, True),
        (1.0, 1.1, False),
        (10**30, 10**30, True),
        (10**30, 10**30 + 1, False),
        (1e30, 10**30, False),
        (10**400, 1.0, False),
        (1, "1", False),
        (1, None, False),
        ([1, (2.0,)], [1.0, (2,)], True),
        ([1], (1,), False),
        ({1: 2}, {1.0: 2.0}, True),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e308, False),
        ("a", "a", True),
        (None, None, True),
        (None, False, False),
    ],
)
def test_with_a_tolerance_numbers_are_compared_by_value(expected, got, same):
    assert is_equal(expected, json.loads(encode(got)), 1e-6) is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (1, True, False),
        (True, 1, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (None, False, False),
        ("1", 1, False),
        ([1], (1,), False),
        ((1,), [1], False),
        ([], {}, False),
        ([1, 2], [1], False),
        ({1, 2}, {2, 1}, True),
        ({1}, frozenset({1}), False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 2}, False),
        ({1: "a"}, {True: "a"}, False),
        (0.1 + 0.2, 0.3, True),
        (0.3, 0.31, False),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("inf"), float("-inf"), False),
        (10**30, 10**30, True),
        (10**30, 10**30 + 1, False),
        (-(10**30), -(10**30), True),
        (b"a", b"a", True),
        (b"a", "a", False),
        ("é\n\ud800", "é\n\ud800", True),
        ([None, True, 2, 2.5, "x"], [None, True, 2, 2.5, "x"], True),
        (3, object(), False),
        ("dict", {"dict": []}, False),
    ],
)
def test_values_are_compared_by_type_and_value(expected, got, same):
    result = json.loads(encode(got))

    assert same is is_equal(expected, result)


def test_a_result_is_shown_short():
    assert len(render_result(json.loads(encode(["x" * 500] * 3)))) < 500
    assert render_result({"other": "object"}) == "object: a type that is not compared" or "object" in render_result(
        {"other": "object"}
    )
