"""What has come of each request so far, and who waits for more of it?

Everything here runs on the event loop of the HTTP process. A generation collects what engine steps bring; whoever streams
it takes all that has gathered at once, so a slow reader gets fewer and larger chunks and holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from autotune.ddtree.detokenizer import Detokenizer
from autotune.ddtree.request import GenerationRequest, TokenDelta


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a generation ended.

    Attributes:
        kind: ``"stop"``, ``"length"``, ``"abort"``, or ``"rejected"`` when the engine can never serve the request.
        matched: the stop string, or the end token's id, that ended it; ``None`` otherwise.
        message: the reason of a rejection or an abort.
    """

    kind: str
    matched: str | int | None = None
    message: str | None = None

    @property
    def native(self) -> dict[str, Any]:
        """SGLang's record of it, without the fields that do not apply."""
        record: dict[str, Any] = {"type": self.kind}
        if self.matched is not None:
            record["matched"] = self.matched
        if self.message is not None:
            record["message"] = self.message
        return record


class Generation:
    """One answer in the making.

    Attributes:
        request: what was asked, under the id that the client knows.
        wire_id: the id that the engine knows it by; no two submissions ever share one.
        finish: why it ended; ``None`` while it runs.
        token_ids: the tokens so far, an end token not among them.
        completion_tokens: tokens generated so far, an end token counted.
        verify_steps: verify steps so far.
        histogram: how many steps accepted 0, 1, 2 ... drafted tokens.
        started_s: monotonic time of the submission.
        first_token_s: monotonic time of the first token; ``None`` before it.
        last_token_s: monotonic time of the newest tokens; ``None`` before the first.
        probe: True for the server's own requests, which no metric counts.
    """

    __slots__ = (
        "_detokenizer",
        "_pieces",
        "_waiter",
        "completion_tokens",
        "finish",
        "first_token_s",
        "histogram",
        "last_token_s",
        "probe",
        "request",
        "started_s",
        "token_ids",
        "verify_steps",
        "wire_id",
    )

    def __init__(
        self, request: GenerationRequest, wire_id: str, detokenizer: Detokenizer, started_s: float, *, probe: bool
    ) -> None:
        self.request = request
        self.wire_id = wire_id
        self.finish: Finish | None = None
        self.token_ids: list[int] = []
        self.completion_tokens = 0
        self.verify_steps = 0
        self.histogram: tuple[int, ...] = ()
        self.started_s = started_s
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self.probe = probe
        self._detokenizer = detokenizer
        self._pieces: list[str] = []
        self._waiter: asyncio.Future[None] | None = None

    def push(self, delta: TokenDelta, eos_token_id: int) -> None:
        """Add what a step brought; does nothing once finished."""
        if self.finish is not None:
            return
        text, used, matched = self._detokenizer.feed(delta.token_ids)
        self.completion_tokens = delta.completion_tokens
        self.verify_steps = delta.verify_steps
        self.histogram = delta.accepted_histogram
        tokens = delta.token_ids[:used]
        if matched is not None:
            self.completion_tokens = len(self.token_ids) + used
        elif delta.finish_reason is not None:
            rest = self._detokenizer.finish()
            text, matched = text + rest.text, rest.matched
        if matched is not None:
            self.finish = Finish("stop", matched)
        elif delta.finish_reason == "stop":
            self.finish = Finish("stop", eos_token_id)
        elif delta.finish_reason == "abort":
            self.finish = Finish("abort", message="Aborted")
        elif delta.finish_reason is not None:
            self.finish = Finish(delta.finish_reason)
        self.token_ids.extend(tokens)
        if text:
            self._pieces.append(text)
        self._wake()

    def end(self, finish: Finish) -> None:
        """End it from outside; does nothing once finished."""
        if self.finish is None:
            self.finish = finish
            self._wake()

    async def wait(self) -> None:
        """Return when there is text to take, or the generation has ended."""
        while not self._pieces and self.finish is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def wait_for_end(self) -> None:
        """Return when the generation has ended."""
        while self.finish is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def take(self) -> str:
        """Return the text gathered since the last call."""
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces.pop()
        text = "".join(pieces)
        pieces.clear()
        return text

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Observer(Protocol):
    """Is told how generations proceed; for metrics."""

    def advanced(self, generation: Generation, tokens: int, verify_steps: int, gap_s: float | None) -> None:
        """A generation got more tokens in more verify steps, ``gap_s`` after the ones before (``None`` for its first)."""

    def ended(self, generation: Generation, now_s: float) -> None:
        """A generation ended, however it did."""


class GenerationTable:
    """All generations in flight.

    A client may use an id again as soon as its request has ended here, while the engine still reports tokens of the
    old one. The engine therefore knows each submission by an id of its own, the client's with a serial number.

    Args:
        send_generate: passes a request on to the engine, with the engine's id.
        send_abort: tells the engine to drop a request, by the engine's id.
        table: bytes of each token.
        eos_token_id: the end token.
        clock: monotonic seconds.
        observer: told about progress; ``None`` when nobody counts.
    """

    def __init__(
        self,
        send_generate: Callable[[GenerationRequest], None],
        send_abort: Callable[[str], None],
        table: tuple[bytes, ...],
        eos_token_id: int,
        clock: Callable[[], float],
        observer: Observer | None = None,
    ) -> None:
        self._send_generate = send_generate
        self._send_abort = send_abort
        self._table = table
        self._eos_token_id = eos_token_id
        self._clock = clock
        self._observer = observer
        self._flying: dict[str, Generation] = {}
        self._by_request_id: dict[str, Generation] = {}
        self._serial = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._output = asyncio.Event()
        self.outputs = 0
        """Engine steps that produced anything so far: growing means the engine lives."""

    def __len__(self) -> int:
        """Generations in flight."""
        return len(self._flying)

    def __contains__(self, request_id: str) -> bool:
        """Whether a request with this id is in flight."""
        return request_id in self._by_request_id

    def submit(self, request: GenerationRequest, stop: Iterable[str] = (), *, probe: bool = False) -> Generation:
        """Start a generation.

        Raises:
            ValueError: a request with this id is in flight.
        """
        if request.request_id in self._by_request_id:
            raise ValueError(f"a request with the id {request.request_id!r} is in flight")
        self._serial += 1
        wire_id = f"{request.request_id}#{self._serial}"
        generation = Generation(request, wire_id, Detokenizer(self._table, stop), self._clock(), probe=probe)
        self._flying[wire_id] = generation
        self._by_request_id[request.request_id] = generation
        self._idle.clear()
        self._send_generate(replace(request, request_id=wire_id))
        return generation

    def deliver(self, deltas: Iterable[TokenDelta]) -> None:
        """Give each generation what a step brought; deltas of forgotten generations are dropped."""
        self.outputs += 1
        self._output.set()
        now_s = self._clock()
        for delta in deltas:
            generation = self._flying.get(delta.request_id)
            if generation is None:
                continue
            tokens, verify_steps = generation.completion_tokens, generation.verify_steps
            generation.push(delta, self._eos_token_id)
            self._observe(
                generation, generation.completion_tokens - tokens, generation.verify_steps - verify_steps, now_s
            )
            if generation.finish is not None:
                if delta.finish_reason is None:
                    self._send_abort(delta.request_id)
                self._forget(generation)

    def reject(self, wire_id: str, message: str) -> None:
        """End a generation that the engine can never serve."""
        generation = self._flying.get(wire_id)
        if generation is not None:
            generation.end(Finish("rejected", message=message))
            self._forget(generation)

    def abort(self, generation: Generation) -> None:
        """Drop this generation and free its slot; does nothing once it has ended."""
        if generation.wire_id in self._flying:
            self._send_abort(generation.wire_id)
            generation.end(Finish("abort", message="Aborted"))
            self._forget(generation)

    def abort_by_id(self, request_id: str) -> None:
        """Drop the generation that has this id now; unknown ids are ignored."""
        generation = self._by_request_id.get(request_id)
        if generation is not None:
            self.abort(generation)

    def abort_all(self) -> None:
        """Drop every generation."""
        for generation in list(self._flying.values()):
            self.abort(generation)

    async def wait_until_idle(self) -> None:
        """Return when no generation is in flight."""
        await self._idle.wait()

    async def wait_for_output(self, timeout_s: float) -> None:
        """Return when the engine produces anything, or after ``timeout_s``."""
        self._output.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._output.wait(), timeout_s)

    def _observe(self, generation: Generation, tokens: int, verify_steps: int, now_s: float) -> None:
        if tokens <= 0:
            return
        last_s, generation.last_token_s = generation.last_token_s, now_s
        if generation.first_token_s is None:
            generation.first_token_s = now_s
        if self._observer is not None and not generation.probe:
            self._observer.advanced(generation, tokens, verify_steps, None if last_s is None else now_s - last_s)

    def _forget(self, generation: Generation) -> None:
        del self._flying[generation.wire_id]
        del self._by_request_id[generation.request.request_id]
        if not self._flying:
            self._idle.set()
        if self._observer is not None and not generation.probe:
            self._observer.ended(generation, self._clock())
