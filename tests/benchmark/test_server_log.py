from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.benchmark.server_log import DecodeLine, mean_accept_length, parse_line, parse_lines, parse_message

OLD = (
    "[2025-03-01 10:00:00 TP0] Decode batch. #running-req: 3, #token: 90, token usage: 0.01, "
    "gen throughput (token/s): 50.00, largest-len: 0, #queue-req: 0, "
)
NEW = (
    "[2026-01-01 10:00:00] Decode batch, #running-req: 3, #token: 90, token usage: 0.01, accept len: 2.50, "
    "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 120.00, #queue-req: 0, "
)
HYBRID = NEW.replace(
    "#token: 90, token usage: 0.01, ",
    "#full token: 90, full token usage: 0.01, mamba num: 3, mamba usage: 0.10, ",
)
PARSED = DecodeLine(3, 2.5, 0.5, 120.0, 0)


def test_an_old_line_has_no_accept_length():
    """case 30."""
    assert parse_line(OLD) == DecodeLine(3, None, None, 50.0, 0)


@pytest.mark.parametrize("line", [NEW, HYBRID, NEW.rstrip(", "), NEW.replace("batch,", "batch [17],")])
def test_new_lines_are_read_by_name(line: str):
    """case 30."""
    assert parse_line(line) == PARSED


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[2026-01-01 10:00:00 DP0 TP3 EP1] ",
        "[TP0] ",
        "[gpu=0] ",
        "[10:00:00 TP0] ",
        "[2026-01-01T10:00:00.123 TP0] ",
        "2026-01-01T10:00:00.123456789Z [2026-01-01 10:00:00 TP0] ",
        "2026-01-01 10:00:00,123 INFO [TP0] ",
        "INFO: ",
    ],
)
def test_prefixes_of_ranks_and_of_what_keeps_the_log_are_known(prefix: str):
    assert parse_line(prefix + NEW.partition("] ")[2]) == PARSED


LINES_OVER_THE_YEARS = {
    "2024, summer": (
        "[gpu=0] Decode batch. #running-req: 3, #token: 90, token usage: 0.01, gen throughput (token/s): 50.00, #queue-req: 0",
        DecodeLine(3, None, None, 50.0, 0),
    ),
    "2024, December": (
        (
            "[2024-12-10 10:00:00 TP0] Decode batch. #running-req: 3, #token: 90, token usage: 0.01, "
            "gen throughput (token/s): 50.00, #queue-req: 0"
        ),
        DecodeLine(3, None, None, 50.0, 0),
    ),
    "2025, March": (
        (
            "[2025-03-20 10:00:00 TP0] Decode batch. #running-req: 3, #token: 90, token usage: 0.01, accept len: 2.50, "
            "gen throughput (token/s): 50.00, #queue-req: 0, "
        ),
        DecodeLine(3, 2.5, None, 50.0, 0),
    ),
    "2025, June": (
        (
            "[2025-06-20 10:00:00 DP1 TP1] Decode batch. #running-req: 3, #token: 90, token usage: 0.01, accept len: 2.50, "
            "cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 0, "
        ),
        DecodeLine(3, 2.5, None, 50.0, 0),
    ),
    "2025, November": (
        (
            "[2025-11-20 10:00:00] Decode batch [17], #running-req: 3, #token: 90, token usage: 0.01, accept len: 2.50, "
            "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 50.00, #queue-req: 0, "
        ),
        DecodeLine(3, 2.5, 0.5, 50.0, 0),
    ),
    "2026, July": (
        (
            "[2026-07-20 10:00:00 TP0] Decode batch, #running-req: 3, #token: 90, token usage: 0.01, accept len: 2.50, "
            "accept rate: 0.50, cap len: 7.00, block accept len: 3.10, npu graph: True, gen throughput (token/s): 50.00, "
            "#queue-req: 0"
        ),
        DecodeLine(3, 2.5, 0.5, 50.0, 0),
    ),
}


@pytest.mark.parametrize("when", LINES_OVER_THE_YEARS)
def test_lines_of_all_years_are_read(when: str):
    """case 30."""
    line, expected = LINES_OVER_THE_YEARS[when]

    assert parse_line(line) == expected


@given(st.permutations(NEW.partition("batch, ")[2].rstrip(", ").split(", ")))
def test_the_order_of_fields_does_not_matter(fields: list[str]):
    """case 30."""
    assert parse_line("[2026-01-01 10:00:00] Decode batch, " + ", ".join(fields)) == PARSED


@pytest.mark.parametrize(
    "line",
    [
        "accept len: 99",
        "user prompt: Decode batch, #running-req: 1, accept len: 99, ",
        "[2026-01-01 10:00:00] Receive: text='Decode batch, #running-req: 1, accept len: 99'",
        "[2026-01-01 10:00:00] Prefill batch, #new-seq: 1, accept len: 99",
        "Decode batch, accept len: 99",
        "[note] Decode batch, #running-req: 1, accept len: 99",
        "",
        "{",
        "{}",
        "[]",
    ],
)
def test_text_that_is_no_record_is_ignored(line: str):
    """case 30."""
    assert parse_line(line) is None


COLOURED = (
    "\x1b[32mDecode batch, #running-req: 4, accept len: 3.10, gen throughput (token/s): 80.00, #queue-req: 1\x1b[0m"
)
SHOWN = DecodeLine(4, 3.1, None, 80.0, 1)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"MESSAGE": list(COLOURED.encode()), "_PID": "7"}),
        json.dumps({"MESSAGE": COLOURED}),
        COLOURED,
        COLOURED.encode(),
        COLOURED + "\r",
        COLOURED + "\r\n",
        json.dumps({"MESSAGE": list((COLOURED + "\r").encode())}),
        json.dumps({"MESSAGE": COLOURED}).encode(),
    ],
)
def test_colours_and_byte_arrays_hide_nothing(line: str | bytes):
    """case 28."""
    assert parse_line(line) == SHOWN


def test_invalid_utf8_is_replaced():
    """case 28."""
    assert parse_message([104, 255, 105]) == "h\ufffdi"
    assert parse_line(COLOURED.encode() + b" \xff\xfe") is not None


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"MESSAGE": COLOURED}).encode()[:-2] + b' \xff\xfe"}',
        json.dumps({"MESSAGE": COLOURED + " \ud800"}),
        f'{{"MESSAGE": "{COLOURED[5:-4]} \ud800"}}',
        " \t" + json.dumps({"MESSAGE": COLOURED}),
        b"  " + json.dumps({"MESSAGE": COLOURED}).encode(),
    ],
)
def test_odd_bytes_or_leading_blanks_hide_no_line_of_a_journal(line: str | bytes):
    """case 28."""
    found = parse_line(line)

    assert found is not None
    assert (found.running, found.accept_length) == (4, 3.1)


@pytest.mark.parametrize("value", [None, 3, [300, -1, "x", None], {}, [True, False]])
def test_a_message_that_is_no_text_is_harmless(value: object):
    assert isinstance(parse_message(value), str)


@pytest.mark.parametrize("value", ["nan", "inf", "-", "1e9", "٣", "0x10", "1_000"])
def test_what_is_no_plain_number_is_unknown(value: str):
    found = parse_line(f"Decode batch, #running-req: 1, accept len: {value}, #queue-req: {value}")

    assert found == DecodeLine(1, None, None, None, None)


def test_the_mean_is_weighted_by_running_requests_and_leaves_out_the_impossible():
    """case 33."""
    lines = parse_lines(
        f"Decode batch, #running-req: {running}, accept len: {length}, #queue-req: 0"
        for running, length in [(1, "2.00"), (3, "4.00"), (5, "0.00")]
    )

    assert mean_accept_length(lines) == 3.5


def test_no_line_has_no_mean():
    """case 33."""
    assert mean_accept_length(parse_lines([OLD])) is None


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_no_line_raises(line: str | bytes):
    parse_line(line)


def test_text_later_in_a_line_changes_no_field():
    """case 30."""
    assert parse_line(NEW + "last prompt: x, accept len: 99, gen throughput (token/s): 1") == PARSED


@given(st.text(max_size=80))
def test_text_after_the_fields_changes_nothing_before_it(tail: str):
    line = parse_line(NEW + tail.replace("\n", " ").replace("\r", " ").replace("\x1b", " "))

    assert line is None or line.accept_length == 2.5
