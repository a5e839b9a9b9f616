from __future__ import annotations

from dataclasses import replace

from autotune.ddtree.decode_log import DecodeLog
from autotune.ddtree.request import EngineStats

EMPTY = EngineStats(0, 0, 0, 1000, 0, 0, 0, 0, 0)


def test_a_line_is_due_when_the_interval_is_full() -> None:
    """case 30: the newest shape of the line, values of this interval only."""
    log = DecodeLog(40, 8, 0.0)
    busy = replace(
        EMPTY, running=1, queued=1, cache_tokens=250, verify_calls=80, generated_tokens=200, accepted_tokens=120
    )

    assert log.render_decode(replace(busy, decode_steps=39), 2, 1.0) is None
    line = log.render_decode(replace(busy, decode_steps=40), 2, 2.0)

    assert line == (
        "Decode batch, #running-req: 2, #token: 250, token usage: 0.25, accept len: 2.50, accept rate: 0.21, "
        "cuda graph: False, gen throughput (token/s): 100.00, #queue-req: 1"
    )
    assert log.accept_length == 2.5


def test_plain_decoding_says_nothing_of_acceptance() -> None:
    """case 33"""
    log = DecodeLog(10, None, 0.0)

    line = log.render_decode(replace(EMPTY, decode_steps=10, verify_calls=10, generated_tokens=10), 1, 1.0)

    assert line is not None
    assert "accept" not in line
    assert log.accept_length is None


def test_after_a_reset_the_accept_length_is_unknown_until_the_next_line() -> None:
    log = DecodeLog(1, 8, 0.0)
    log.render_decode(replace(EMPTY, decode_steps=1, verify_calls=1, generated_tokens=4), 1, 1.0)
    log.reset(EMPTY)

    assert log.accept_length is None
    log.render_decode(replace(EMPTY, decode_steps=1, verify_calls=2, generated_tokens=3), 1, 2.0)
    assert log.accept_length == 1.5


def test_a_prefill_line_counts_the_new_tokens() -> None:
    log = DecodeLog(40, None, 0.0)
    stats = replace(EMPTY, running=1, prompt_tokens=30)

    line = log.render_prefill(stats, 1, 2.0)

    assert line is not None
    assert line.startswith("Prefill batch, #new-seq: 1, #new-token: 30, #cached-token: 0, ")
    assert "input throughput (token/s): 15.00" in line
    assert log.render_prefill(stats, 0, 3.0) is None
