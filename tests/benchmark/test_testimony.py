from __future__ import annotations

from typing import Any

import pytest

from autotune.benchmark.chat_chunk import Usage
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.server_info import ServerInfo, read_info
from autotune.benchmark.server_log import parse_lines
from autotune.benchmark.testimony import ServerTestimony, Snapshot, find_foreign, hear, log_step_time_s
from autotune.trial import Figure

NOTHING = Snapshot()


def record(tokens: int = 41, steps: int | None = None, outcome: Outcome = Outcome.OK) -> RequestRecord:
    return RequestRecord(
        "p", 0, 1, 0.0, 1.0, outcome, usage=Usage(9, tokens), chunk_at_s=(0.5,), max_tokens=64, verify_steps=steps
    )


def counted(generated: float, verified: float, **gauges: float) -> Snapshot:
    return Snapshot({"generation_tokens_total": generated, "spec_verify_calls_total": verified, **gauges})


def log(*lengths: str, running: int = 1, tokens_per_s: float = 100.0) -> list[Any]:
    return parse_lines(
        f"Decode batch, #running-req: {running}, accept len: {length}, "
        f"gen throughput (token/s): {tokens_per_s:.2f}, #queue-req: 0"
        for length in lengths
    )


def listen(records: list[RequestRecord], **changes: Any) -> ServerTestimony:
    values: dict[str, Any] = {
        "before": NOTHING,
        "after": NOTHING,
        "lines": [],
        "info": ServerInfo(),
        "concurrency": 1,
        "speculative": True,
        "stream_tokens_per_s": 100.0,
    }
    return hear(records, **(values | changes))


def test_answers_speak_before_counters_and_counters_before_the_log():
    before, after = counted(0, 0), counted(82, 32)
    everything = {"before": before, "after": after, "lines": log("1.00", "3.00"), "info": ServerInfo(2.0)}

    by_answers = listen([record(steps=10), record(steps=10)], **everything)
    by_counters = listen([record(), record()], **everything)
    by_average = listen([record(), record()], **(everything | {"before": NOTHING}))
    by_log = listen([record(), record()], lines=log("1.00", "3.00"))

    assert by_answers.accept_length == Figure(4.0, 20)
    assert by_counters.accept_length == Figure(2.5, 32)
    assert by_average.accept_length == Figure(2.0, 0)
    assert by_log.accept_length == Figure(3.0, 0)


def test_one_answer_without_its_steps_makes_the_answers_no_source():
    heard = listen([record(steps=10), record()], before=counted(0, 0), after=counted(82, 32))

    assert heard.accept_length == Figure(2.5, 32)


def test_sources_that_disagree_are_told():
    heard = listen([record(steps=10), record(steps=10)], before=counted(0, 0), after=counted(82, 32))

    assert heard.notes == ("accept length is 4.00 by meta_info but 2.50 by /metrics",)


@pytest.mark.parametrize(("answers", "is_told"), [(2, False), (100, True)])
def test_an_average_that_may_lack_the_end_of_a_short_cell_may_differ(answers: int, is_told: bool):
    """Servers bring averages up to date every 40 decode steps: of 30 steps they may have seen none, of 1500 nearly all."""
    heard = listen([record(steps=15)] * answers, info=ServerInfo(accept_length=2.0))
    far = listen([record(steps=15)] * answers, info=ServerInfo(accept_length=1.5))

    assert heard.accept_length is not None
    assert heard.accept_length.value == pytest.approx(40 / 15)
    assert (heard.notes != ()) is is_told
    assert far.notes


def test_more_than_the_block_and_one_is_impossible():
    """case 33."""
    info = read_info({"speculative_algorithm": "DDTREE", "speculative_num_draft_tokens": 8})
    heard = listen([record(steps=4)], info=info, lines=log("1.00", "3.00"))

    assert heard.accept_length == Figure(3.0, 0)
    assert heard.notes == (
        "meta_info says accept length 10.00, which is impossible where a step emits at most 9; ignored",
    )


def test_a_step_takes_its_tokens_over_the_speed_of_its_stream():
    heard = listen([record(steps=10)], stream_tokens_per_s=50.0)

    assert heard.step_time_s is not None
    assert heard.step_time_s.value == pytest.approx(0.08)


def test_without_speculation_a_step_is_a_token():
    heard = listen([record()], speculative=False, stream_tokens_per_s=50.0)

    assert heard.accept_length is None
    assert heard.step_time_s == Figure(0.02, 41)
    assert heard.notes == ()


@pytest.mark.parametrize("info", [ServerInfo(), ServerInfo(accept_length=0.0)])
def test_an_unknown_server_that_says_nothing_has_no_step_time(info):
    """case 33: it may speculate, and then a token is no step."""
    heard = listen([record()], speculative=None, info=info)

    assert (heard.accept_length, heard.step_time_s) == (None, None)


def test_an_unknown_server_that_says_it_does_not_speculate_takes_a_step_for_each_token():
    heard = listen([record()], speculative=None, info=ServerInfo(speculates=False))

    assert heard.step_time_s == Figure(0.01, 41)


def test_no_accept_length_has_no_step_time():
    heard = listen([record()])

    assert heard.step_time_s is None
    assert heard.notes == ("speculation is on but no source gives an accept length",)


@pytest.mark.parametrize(
    ("info", "steps", "expected"),
    [
        (ServerInfo(), None, None),
        (ServerInfo(), 10, Figure(4.0, 10)),
        (ServerInfo(speculates=False), 10, None),
        (ServerInfo(accept_length=3.0, speculates=True), None, Figure(3.0, 0)),
    ],
)
def test_a_server_that_nobody_configured_says_itself_whether_it_speculates(
    info: ServerInfo, steps: int | None, expected: Figure | None
):
    assert listen([record(steps=steps)], info=info, speculative=None).accept_length == expected


def test_steps_that_seem_longer_here_than_in_the_log_are_told():
    near, far = log(*["4.00"] * 5, tokens_per_s=100.0), log(*["4.00"] * 5, tokens_per_s=200.0)

    assert listen([record(steps=10)], lines=near).notes == ()
    assert listen([record(steps=10)], lines=far).notes == ("a step takes 40.0 ms as received but 20.0 ms by the log",)


def test_the_log_gives_a_step_time_only_from_full_batches():
    assert log_step_time_s(log(*["4.00"] * 3, running=2), 2, speculates=True) == pytest.approx(0.08)
    assert log_step_time_s(log(*["4.00"] * 3, running=1), 2, speculates=True) is None
    assert log_step_time_s(log(*["4.00"] * 2, running=2), 2, speculates=True) is None
    assert log_step_time_s(log(*["0.00"] * 3, running=2), 2, speculates=True) is None
    assert log_step_time_s(log(*["0.00"] * 3, running=2), 2, speculates=False) == pytest.approx(0.02)
    assert log_step_time_s(log(*["4.00"] * 3, running=2, tokens_per_s=0.0), 2, speculates=True) is None


def test_more_requests_in_the_log_than_in_flight_are_foreign_traffic():
    lines = parse_lines(
        f"Decode batch, #running-req: {running}, #queue-req: {queued}" for running, queued in ((1, 0), (2, 1), (2, 0))
    )

    assert find_foreign([], NOTHING, NOTHING, lines, 3) is None
    assert find_foreign([], NOTHING, NOTHING, lines, 2) == "the server worked on 3 requests while 2 were in flight"


def test_more_tokens_than_were_received_are_foreign_traffic():
    assert find_foreign([record()], counted(100, 0), counted(141, 9), [], 1) is None
    assert (
        find_foreign([record()], counted(100, 0), counted(171, 9), [], 1)
        == "the server generated 71 tokens while 41 were received"
    )


def test_tokens_of_an_answer_that_broke_off_are_ours():
    broken = record(1, outcome=Outcome.TRUNCATED)

    assert find_foreign([record(), broken], counted(0, 0), counted(41 + 60, 9), [], 1) is None


def test_requests_left_in_hand_are_foreign_and_stale_gauges_are_not():
    after = counted(41, 9, num_running_reqs=2.0, num_queue_reqs=1.0)
    busier_cell_before = counted(0, 0, num_running_reqs=32.0, num_queue_reqs=0.0)
    left_over = counted(41, 9, num_running_reqs=32.0, num_queue_reqs=0.0)

    assert find_foreign([record()], counted(0, 0), after, [], 3) is None
    assert find_foreign([record()], busier_cell_before, left_over, [], 1) is None
    assert (
        find_foreign([record()], counted(0, 0), after, [], 2)
        == "the server had 3 requests in hand while at most 2 were in flight"
    )


@pytest.mark.parametrize("body", [None, [], "x", {"internal_states": [None]}, {"internal_states": [{}]}])
def test_a_server_that_says_nothing_of_itself_is_unknown(body: object):
    assert read_info(body) == ServerInfo()


def test_what_older_and_forked_servers_say_is_read():
    nested = {"server_args": {"speculative_algorithm": None}, "version": "0.5.15"}
    forked = {"speculative_algorithm": "DDTREE", "speculative_ddtree_block_size": 16, "speculative_num_draft_tokens": 8}

    assert read_info(nested) == ServerInfo(speculates=False, version="0.5.15")
    assert read_info(forked).largest_accept_length == 17
    assert read_info({"speculative_num_draft_tokens": True}).largest_accept_length is None
