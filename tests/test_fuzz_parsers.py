"""The fuzzer itself: what it must find, and what it must let pass. It runs for half a minute in ``make test``."""

from __future__ import annotations

import time

import pytest
from hypothesis import strategies as st

from autotune.errors import UserError
from tests import fuzz_parsers
from tests.fuzz_parsers import run
from tests.fuzz_targets import Target


def test_what_a_reader_raises_is_found_in_its_smallest_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(fuzz_parsers, "BATCH", 3000)

    def check(data: bytes) -> None:
        if b"\xff" in data and len(data) > 3:
            raise LookupError("mine")

    assert run([Target("broken", st.binary(min_size=0, max_size=8), check)], 0.0, 1) == 1
    printed = capsys.readouterr().out
    assert "broken: FAILED" in printed
    assert r"input: b'\x00\x00\x00\xff'" in printed


def test_errors_of_ours_are_expected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(fuzz_parsers, "BATCH", 50)

    def check(data: bytes) -> None:
        raise UserError(f"{data!r} is refused", where="here", hint="do not")

    assert run([Target("strict", st.binary(max_size=4), check)], 0.0, 1) == 0
    assert "strict: 50 examples" in capsys.readouterr().out


def test_an_input_that_takes_for_ever_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(fuzz_parsers, "LONGEST_S", 0.05)

    def check(_data: bytes) -> None:
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s:
            pass

    assert run([Target("slow", st.just(b"x"), check)], 0.0, 1) == 1
    assert "TookTooLong" in capsys.readouterr().out


def test_the_same_seed_begins_with_the_same_examples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuzz_parsers, "BATCH", 50)

    def draw(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        run([Target("kept", st.binary(max_size=8), seen.append)], 0.0, seed)
        return seen

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
