"""One chat request, streamed: what is sent, which limits apply, and what is recorded.

Bytes go and come through :mod:`autotune.benchmark.wire` and are parsed as they arrive, so that an error inside a stream
ends the request and little is left to do when 32 answers end at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from autotune.api_key import ApiKey
from autotune.benchmark.api_fields import ApiFields
from autotune.benchmark.chat_chunk import explain_error, render_error
from autotune.benchmark.chat_stream import ChatStream
from autotune.benchmark.native_chunk import NativeReader
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.server_connection import ServerConnection
from autotune.benchmark.wire import Answer, Origin, find_origin, render_head
from autotune.settings import SamplingSettings

_ALL_FIELDS = ApiFields()
_BYTES_PER_TOKEN = 8192
_BYTES_PER_REPEATED_TOKEN = 24
_BYTES_BESIDE_TOKENS = 1 << 20
_LONGEST_ERROR_BODY = 1 << 16
_OTHER_KINDS = ("json", "html")
"""In the content type of what is no stream of events."""
_LINGER_S = 1.0
"""How long the end of the body may follow the end mark before the connection is given up."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The four time limits of a request, in seconds, and the size of its answer.

    Attributes:
        connect_s: opening a connection.
        first_token_s: from sending to the first generated text.
        gap_s: between two events after that; comments do not count.
        request_s: the whole request.
    """

    connect_s: float
    first_token_s: float
    gap_s: float
    request_s: float


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request, ready to be sent.

    Attributes:
        prompt_id: names the prompt in records.
        repeat: which repeat it belongs to.
        seed: its sampling seed.
        max_tokens: its token limit.
        body: JSON.
        is_native: it goes to SGLang's ``/generate``, not to the chat.
    """

    prompt_id: str
    repeat: int
    seed: int
    max_tokens: int
    body: bytes
    is_native: bool = False


def render_request(
    *,
    prompt_id: str,
    repeat: int,
    model: str,
    messages: tuple[tuple[str, str], ...],
    sampling: SamplingSettings,
    seed: int,
    max_tokens: int,
    ignore_eos: bool,
    fields: ApiFields = _ALL_FIELDS,
) -> ChatRequest:
    """Make a request that leaves nothing to the server's defaults; ``messages`` are pairs of role and text.

    Fields that a server does not take are left to its defaults, because nothing else can be done.
    """
    if fields.is_native:
        native = _render_native(messages, sampling, seed, max_tokens, ignore_eos=ignore_eos)
        return ChatRequest(prompt_id, repeat, seed, max_tokens, orjson.dumps(native), is_native=True)
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": role, "content": text} for role, text in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": seed,
        fields.limit: max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if fields.extensions:
        body["top_k"] = sampling.top_k
        body["ignore_eos"] = ignore_eos
        body["stream_options"]["continuous_usage_stats"] = True
        if sampling.thinking is not None:
            body["chat_template_kwargs"] = {"thinking": sampling.thinking}
    return ChatRequest(prompt_id, repeat, seed, max_tokens, orjson.dumps(body))


def _render_native(
    messages: tuple[tuple[str, str], ...], sampling: SamplingSettings, seed: int, max_tokens: int, *, ignore_eos: bool
) -> dict[str, Any]:
    """Make the body for ``/generate``: one text, because no chat template is applied there."""
    return {
        "text": "\n\n".join([*(f"{role}: {text}" for role, text in messages), "assistant:"]),
        "sampling_params": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "sampling_seed": seed,
            "max_new_tokens": max_tokens,
            "ignore_eos": ignore_eos,
        },
        "stream": True,
    }


class _Watch:
    """Applies the limits to one request without a timer per read."""

    def __init__(self, limits: RequestLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self.sent_at_s = self.last_at_s = clock()
        self.has_token = False
        self.has_ended = False
        self.stopped: tuple[Outcome, str] | None = None

    async def __aenter__(self) -> Self:
        """Start watching."""
        await self._timeout.__aenter__()
        self._check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Stop watching; a request that was stopped ends here without an exception."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            return True
        return False

    def begin(self, sent_at_s: float) -> None:
        """The request is being written now: the limits but that for connecting begin."""
        self.sent_at_s = self.last_at_s = sent_at_s

    def stop(self, outcome: Outcome, reason: str) -> None:
        """End the request now, for a reason."""
        if self.stopped is None:
            self.stopped = (outcome, reason)
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def _check(self) -> None:
        """Stop when a limit has passed, else look again when the next one would."""
        limits, now_s = self._limits, self._clock()
        deadlines = [(self.sent_at_s + limits.request_s, f"not finished within {limits.request_s:g} s")]
        if self.has_ended:
            deadlines.append((self.last_at_s + _LINGER_S, f"body open {_LINGER_S:g} s after the end mark"))
        elif self.has_token:
            deadlines.append((self.last_at_s + limits.gap_s, f"nothing received for {limits.gap_s:g} s"))
        else:
            deadlines.append((self.sent_at_s + limits.first_token_s, f"no token within {limits.first_token_s:g} s"))
        deadline_s, reason = min(deadlines)
        if deadline_s <= now_s:
            self.stop(Outcome.TIMED_OUT, reason)
            return
        patience_s = min(deadline_s - now_s, limits.gap_s, _LINGER_S)
        self._timer = asyncio.get_running_loop().call_later(patience_s, self._check)


class ChatClient(ServerConnection):
    """Sends chat requests to one server; use as an asynchronous context manager.

    Args:
        url: base URL of the server.
        limits: of each request.
        clock: monotonic seconds.
        api_key: sent with each request; masked wherever an answer repeats it.
    """

    def __init__(
        self,
        url: str,
        limits: RequestLimits,
        *,
        clock: Callable[[], float] = time.perf_counter,
        api_key: ApiKey | None = None,
    ) -> None:
        super().__init__(url, httpx.Timeout(None, connect=limits.connect_s), api_key=api_key, clock=clock)
        self._limits = limits
        self._clock = clock
        self._api_key = api_key
        self._rendered: dict[str, tuple[Origin, bytes]] = {}

    async def ask(self, request: ChatRequest) -> RequestRecord:
        """Send one request and record how it went; whatever the server does is an outcome, never an exception."""
        stream = ChatStream(NativeReader().read) if request.is_native else ChatStream()
        watch = _Watch(self._limits, self._clock)
        stopped: tuple[Outcome, str] | None = None
        try:
            async with watch:
                await self._receive(request, stream, watch)
        except httpx.TimeoutException as error:
            stopped = (Outcome.TIMED_OUT, str(error))
        except httpx.HTTPError as error:
            kind = Outcome.TRUNCATED if stream.first_token_at_s is not None else Outcome.FAILED
            stopped = (kind, f"{type(error).__name__}: {error}")
        ended_at_s = stream.last_event_at_s if stream.is_complete else None
        record = stream.close(
            prompt_id=request.prompt_id,
            repeat=request.repeat,
            seed=request.seed,
            sent_at_s=watch.sent_at_s,
            ended_at_s=self._clock() if ended_at_s is None else ended_at_s,
            stopped=watch.stopped or stopped,
            max_tokens=request.max_tokens,
        )
        return record if self._api_key is None else _mask(record, self._api_key)

    async def _receive(self, request: ChatRequest, stream: ChatStream, watch: _Watch) -> None:
        origin, head = self._address("/generate" if request.is_native else "/v1/chat/completions")
        answer = await self._wire.exchange(
            origin,
            head + b"content-length: %d\r\n\r\n" % len(request.body),
            request.body,
            connect_s=self._limits.connect_s,
            on_sent=watch.begin,
        )
        largest = _BYTES_BESIDE_TOKENS + _BYTES_PER_TOKEN * request.max_tokens
        if request.is_native:  # each event repeats all text and all token numbers so far
            largest += _BYTES_PER_REPEATED_TOKEN * request.max_tokens**2

        def take(data: bytes, at_s: float) -> None:
            stream.feed(data, at_s)
            if stream.last_event_at_s is not None:  # a comment that keeps the connection open is no progress
                watch.last_at_s = stream.last_event_at_s
            watch.has_token = stream.first_token_at_s is not None
            watch.has_ended = stream.has_ended
            if stream.error is not None:
                watch.stop(Outcome.FAILED, stream.error)
            if answer.body.received > largest:
                watch.stop(Outcome.FAILED, f"answer larger than {largest} bytes")

        try:
            reason = await _read_refusal(answer, watch)
            if reason is not None:
                watch.stop(Outcome.FAILED, reason)
                return
            await answer.body.drain(take)
        finally:
            await answer.body.aclose()

    def _address(self, path: str) -> tuple[Origin, bytes]:
        """Where requests to a path go, and their head without the length of the body, rendered once by httpx.

        A load sends 32 requests at once when 32 answers end at once, and what httpx does for each of them would keep
        chunks waiting.
        """
        if path not in self._rendered:
            message = self._http.build_request(
                "POST",
                path,
                headers={"content-type": "application/json", "accept": "text/event-stream"},
            )
            message.headers.pop("content-length", None)
            self._rendered[path] = (find_origin(message.url), render_head(message).removesuffix(b"\r\n"))
        return self._rendered[path]


async def _read_refusal(answer: Answer, watch: _Watch) -> str | None:
    """Say why an answer holds no stream of events, reading a bounded part of its body; ``None`` when it does."""
    kind, encoding = answer.find("content-type").lower(), answer.find("content-encoding").lower() or "identity"
    if answer.status == httpx.codes.OK and encoding == "identity" and not any(word in kind for word in _OTHER_KINDS):
        return None
    body = bytearray()

    def explain() -> str:
        if answer.status == httpx.codes.OK:
            return f"answered with {kind or 'no content type'} ({encoding}) instead of a stream of events"
        if httpx.codes.is_redirect(answer.status):
            return f"HTTP {answer.status}: redirects to {render_error(answer.find('location') or 'nowhere')}"
        return f"HTTP {answer.status}: {explain_error(bytes(body))}"

    def take(data: bytes, _at_s: float) -> None:
        body.extend(data[: _LONGEST_ERROR_BODY - len(body)])
        if answer.body.received > _LONGEST_ERROR_BODY:  # it need not end
            watch.stop(Outcome.FAILED, explain())

    await answer.body.drain(take)
    return explain()


def _mask(record: RequestRecord, key: ApiKey) -> RequestRecord:
    """Leave no API key in what the server said."""
    return dataclasses.replace(
        record,
        error=None if record.error is None else key.redact(record.error),
        finish_reason=None if record.finish_reason is None else key.redact(record.finish_reason),
        text=key.redact(record.text),
        reasoning=key.redact(record.reasoning),
    )
