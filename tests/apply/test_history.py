"""The history of applies: what lies on the host reads back as it was, and one write ends a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.apply.history import KEPT_STEPS, Change, FileState, History, Step, parse_history, render_history
from autotune.errors import HostError


def a_step(number: int = 1, **other) -> Step:
    facts = {
        "study": "kimi",
        "trial": 7,
        "started_at": "2026-03-01T22:00:00+00:00",
        "file_name": "50-autotune.conf",
        "before_digest": None,
        "before_mode": 0o644,
        "before_user_id": 0,
        "before_group_id": 0,
        "had_folder": False,
        "written_digest": "ab" * 32,
        "was_running": True,
    }
    return Step(number, **{**facts, **other})


steps = st.builds(
    a_step,
    st.integers(1, 9999),
    study=st.text(),
    before_digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
    before_mode=st.integers(0, 0o7777),
    had_folder=st.booleans(),
    reported_before=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
)
names = st.lists(st.text()).map(tuple)
changes = st.builds(Change, st.sampled_from(["apply", "rollback"]), steps, st.booleans(), st.text(), names)


@given(st.builds(History, st.lists(steps, max_size=3).map(tuple), st.none() | changes))
def test_a_history_reads_back_as_it_was_written(history):
    assert parse_history(render_history(history), "gpu1") == history


def test_a_change_that_an_earlier_version_began_names_no_other_units():
    history = History().begin(Change("apply", a_step(1), was_running=True, invocation_id="f0"))
    data = render_history(history).replace(b',\n  "dependants": []', b"")

    assert b"dependants" not in data
    assert parse_history(data, "gpu1") == history


def test_no_file_is_an_empty_history():
    assert parse_history(None, "gpu1") == History()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 1, "steps": [{}], "change": null}']
)
def test_a_damaged_history_is_an_error_that_says_where(data):
    with pytest.raises(HostError, match="cannot be read") as caught:
        parse_history(data, "gpu1:/var/lib/autotune/x.service/history.json")

    assert caught.value.where == "gpu1:/var/lib/autotune/x.service/history.json"


def test_a_newer_history_is_refused():
    with pytest.raises(HostError, match="version 2"):
        parse_history(b'{"version": 2}', "gpu1")


def test_an_apply_that_ended_is_the_newest_step():
    history = History((a_step(1),)).begin(Change("apply", a_step(2), was_running=True, invocation_id="f0"))

    assert history.apply_done() == History((a_step(1), a_step(2)))


def test_an_apply_that_was_undone_leaves_the_steps_before_it():
    history = History((a_step(1),)).begin(Change("apply", a_step(2), was_running=True, invocation_id="f0"))

    assert history.undone() == History((a_step(1),))


def test_a_rollback_takes_only_its_own_step_away():
    history = History((a_step(1), a_step(2))).begin(Change("rollback", a_step(2), was_running=True, invocation_id="f0"))

    assert history.undone() == History((a_step(1),))


def test_only_the_newest_steps_are_kept():
    history = History(tuple(a_step(number) for number in range(1, KEPT_STEPS + 1)))
    last = a_step(history.next_number)

    kept = history.begin(Change("apply", last, was_running=True, invocation_id="f0")).apply_done().steps

    assert [step.number for step in kept] == list(range(2, KEPT_STEPS + 2))


def test_numbers_are_not_used_twice_while_a_step_with_them_exists():
    change = Change("apply", a_step(4), was_running=True, invocation_id="f0")

    assert History((a_step(3),), change).next_number == 5


def test_no_file_has_no_digest_and_an_empty_one_has():
    assert FileState(None).digest is None
    assert FileState(b"").digest == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
