from __future__ import annotations

import sys

import pytest

from autotune.cli import render


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_was_closed_from_the_start_takes_nothing(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(sys, name, None)

    render.say("for people")
    render.show("what was asked for")
    render.show_json({"a": None})

    assert not render.is_terminal()
