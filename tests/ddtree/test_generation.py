from __future__ import annotations

import asyncio

from autotune.ddtree.generation import GenerationTable
from autotune.ddtree.request import GenerationRequest, TokenDelta

BYTES = tuple(bytes([value]) for value in range(256))
EOS = 3


class Engine:
    """Records what the table sends on."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.aborted: list[str] = []
        self.table = GenerationTable(
            lambda request: self.requests.append(request.request_id), self.aborted.append, BYTES, EOS, lambda: 0.0
        )

    def submit(self, name: str, *stop: str):
        return self.table.submit(GenerationRequest(name, (1,), 100), stop)

    def deliver(self, name: str, text: bytes, count: int, finish: str | None = None) -> None:
        wire_id = next(wire_id for wire_id in reversed(self.requests) if wire_id.startswith(name))
        self.deliver_to(wire_id, text, count, finish)

    def deliver_to(self, wire_id: str, text: bytes, count: int, finish: str | None = None) -> None:
        self.table.deliver([TokenDelta(wire_id, tuple(text), finish, count, count)])


def test_what_gathered_is_taken_at_once() -> None:
    async def scenario() -> None:
        engine = Engine()
        generation = engine.submit("a")
        engine.deliver("a", b"one ", 4)
        engine.deliver("a", b"two", 7)
        await generation.wait()

        assert generation.take() == "one two"
        assert generation.completion_tokens == 7

    asyncio.run(scenario())


def test_whoever_waits_is_woken() -> None:
    async def scenario() -> None:
        engine = Engine()
        generation = engine.submit("a")
        waiting = asyncio.create_task(generation.wait())
        await asyncio.sleep(0)
        engine.deliver("a", b"x", 1)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(scenario())


def test_tokens_without_text_wake_nobody() -> None:
    async def scenario() -> None:
        engine = Engine()
        generation = engine.submit("a")
        waiting = asyncio.create_task(generation.wait())
        await asyncio.sleep(0)
        engine.deliver("a", "中".encode()[:2], 2)
        await asyncio.sleep(0)
        assert not waiting.done()
        engine.deliver("a", "中".encode()[2:], 3, "length")
        await asyncio.wait_for(waiting, 5)
        assert generation.take() == "中"

    asyncio.run(scenario())


def test_a_stop_string_frees_the_engines_slot_and_later_tokens_are_dropped() -> None:
    async def scenario() -> None:
        engine = Engine()
        generation = engine.submit("a", "stop")
        engine.deliver("a", b"go stop now", 11)

        assert generation.take() == "go "
        assert generation.completion_tokens == 7
        assert generation.token_ids == list(b"go stop")
        assert engine.aborted == engine.requests
        engine.deliver("a", b"more", 15)
        engine.deliver("a", b"", 15, "abort")
        assert generation.take() == ""
        assert generation.finish is not None
        assert generation.finish.native == {"type": "stop", "matched": "stop"}

    asyncio.run(scenario())


def test_an_answer_that_ended_by_itself_is_not_aborted() -> None:
    async def scenario() -> None:
        engine = Engine()
        generation = engine.submit("a")
        engine.deliver("a", b"x", 2, "stop")
        engine.table.abort(generation)

        assert engine.aborted == []
        assert generation.finish is not None
        assert generation.finish.native == {"type": "stop", "matched": EOS}
        await engine.table.wait_until_idle()

    asyncio.run(scenario())


def test_aborting_all_ends_all() -> None:
    async def scenario() -> None:
        engine = Engine()
        generations = [engine.submit(name) for name in "abc"]
        engine.table.abort_all()

        assert engine.aborted == engine.requests
        assert len(engine.aborted) == 3
        assert len(engine.table) == 0
        assert all(generation.finish is not None for generation in generations)

    asyncio.run(scenario())


def test_an_id_used_again_gets_nothing_that_was_meant_for_its_first_owner() -> None:
    async def scenario() -> None:
        engine = Engine()
        first = engine.submit("a")
        engine.table.abort_by_id("a")
        second = engine.submit("a")
        old, new = engine.requests
        engine.deliver_to(old, b"late", 4)
        engine.deliver_to(old, b"", 4, "abort")
        engine.table.reject(old, "late")

        assert (first.finish is not None, second.finish is not None) == (True, False)
        assert second.take() == ""
        engine.deliver_to(new, b"mine", 4, "length")
        assert second.take() == "mine"
        assert second.request.request_id == "a"
        assert second.finish is not None
        assert second.finish.kind == "length"

    asyncio.run(scenario())


def test_dropping_an_ended_generation_leaves_the_next_owner_of_its_id_alone() -> None:
    async def scenario() -> None:
        engine = Engine()
        first = engine.submit("a")
        engine.table.abort(first)
        second = engine.submit("a")
        engine.table.abort(first)

        assert engine.aborted == engine.requests[:1]
        assert second.finish is None
        assert "a" in engine.table
        engine.table.abort_by_id("a")
        assert engine.aborted == engine.requests
        assert "a" not in engine.table

    asyncio.run(scenario())
