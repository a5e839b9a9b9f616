"""OpenAI's ``/v1/completions`` and ``/v1/chat/completions`` as SGLang speaks them: parsing and answering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from autotune.ddtree.answer import DONE, Order, render_meta_info
from autotune.ddtree.generation import Generation
from autotune.ddtree.prompt import Prompter
from autotune.ddtree.request import GenerationRequest
from autotune.ddtree.request_body import Body, BodyError, is_token_list
from autotune.ddtree.sampling_fields import (
    SamplingDefaults,
    parse_sampling,
    parse_seed,
    parse_stop,
    refuse_unsupported,
)

_COMPLETIONS_MAX_TOKENS: Final = 16
"""OpenAI's default for ``/v1/completions``; a chat may fill the context."""


class OpenAIProtocol:
    """Reads and answers both OpenAI endpoints.

    Args:
        prompter: turns prompts into tokens.
        defaults: sampling of requests that state none.
        block: block size; ``None`` while decoding plainly.
        model: model name of answers to requests that name none.
        clock: monotonic seconds.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        prompter: Prompter,
        defaults: SamplingDefaults,
        block: int | None,
        model: str,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._prompter = prompter
        self._defaults = defaults
        self._block = block
        self._model = model
        self._clock = clock
        self._now = now

    def parse_completion(self, body: Body, request_id: str) -> Order:
        """Read the body of ``/v1/completions``.

        Raises:
            BodyError: the request cannot be served.
        """
        return self._parse(body, request_id, self._parse_prompt(body), chat=False)

    def parse_chat(self, body: Body, request_id: str) -> Order:
        """Read the body of ``/v1/chat/completions``.

        Raises:
            BodyError: the request cannot be served.
        """
        return self._parse(body, request_id, self._prompter.encode_messages(body.raw("messages")), chat=True)

    def _parse(self, body: Body, request_id: str, prompt_ids: list[int], *, chat: bool) -> Order:
        refuse_unsupported(body)
        max_new_tokens = self._parse_limit(body, len(prompt_ids), chat=chat)
        stream = body.switch("stream")
        options = body.record("stream_options")
        wants_meta_info = body.switch("return_meta_info")
        if stream and wants_meta_info:
            raise body.error("return_meta_info", "does not work with stream")
        chosen = parse_sampling(body, self._defaults)
        request = GenerationRequest(
            request_id=body.text("rid") or request_id,
            prompt_ids=tuple(prompt_ids),
            max_new_tokens=max_new_tokens,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            top_k=chosen.top_k,
            seed=parse_seed(body, "seed"),
            ignore_eos=body.switch("ignore_eos"),
            min_new_tokens=body.integer("min_tokens", minimum=0, maximum=max_new_tokens) or 0,
        )
        rendering = OpenAIRendering(
            request=request,
            chat=chat,
            model=body.text("model") or self._model,
            created=int(self._now()),
            wants_usage=options.switch("include_usage"),
            wants_usage_always=options.switch("continuous_usage_stats"),
            meta_info=(lambda generation: render_meta_info(generation, self._block, self._clock()))
            if wants_meta_info
            else None,
        )
        return Order(request, parse_stop(body), stream, rendering)

    def _parse_limit(self, body: Body, prompt_tokens: int, *, chat: bool) -> int:
        old = body.integer("max_tokens", minimum=1)
        new = body.integer("max_completion_tokens", minimum=1) if chat else None
        limit = old if new is None else new
        room = self._prompter.check_room(prompt_tokens, limit)
        return min(room, _COMPLETIONS_MAX_TOKENS) if limit is None and not chat else room

    def _parse_prompt(self, body: Body) -> list[int]:
        prompt = body.raw("prompt")
        if prompt is None:
            raise BodyError("prompt is missing.", "prompt")
        if is_token_list(prompt):
            self._prompter.check_ids(prompt)
            return list(prompt)
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
            if is_token_list(prompt):
                self._prompter.check_ids(prompt)
                return list(prompt)
        if not isinstance(prompt, str):
            raise body.error("prompt", "must be one string or one list of token numbers; send one prompt per request")
        return self._prompter.encode(prompt)


class OpenAIRendering:
    """Answers in OpenAI's form, with the parts of each event that never change made once.

    Args:
        request: what was asked.
        chat: whether it is a chat.
        model: model name of the answer.
        created: seconds since the epoch.
        wants_usage: send usage in a last event without choices.
        wants_usage_always: send usage in every event.
        meta_info: makes SGLang's ``meta_info`` for an answer that is not streamed; ``None`` when not wanted.
    """

    def __init__(
        self,
        *,
        request: GenerationRequest,
        chat: bool,
        model: str,
        created: int,
        wants_usage: bool,
        wants_usage_always: bool,
        meta_info: Callable[[Generation], dict[str, Any]] | None,
    ) -> None:
        self._request = request
        self._chat = chat
        self._model = model
        self._created = created
        self._wants_usage = wants_usage
        self._wants_usage_always = wants_usage_always
        self._meta_info = meta_info
        self._opened = False
        kind = "chat.completion.chunk" if chat else "text_completion"
        head = {"id": request.request_id, "object": kind, "created": created, "model": model}
        self._head = b"data: " + orjson.dumps(head)[:-1] + b',"choices":['
        if chat:
            self._before_text = self._head + b'{"index":0,"delta":{"role":null,"content":'
            self._after_text = (
                b',"reasoning_content":null,"tool_calls":null},'
                b'"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":'
            )
        else:
            self._before_text = self._head + b'{"index":0,"text":'
            self._after_text = b',"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":'

    def render_piece(self, generation: Generation, text: str) -> bytes:
        """Return one event with new text; a chat's first is preceded by the event that names the role."""
        event = b"%b%b%b%b}\n\n" % (self._before_text, orjson.dumps(text), self._after_text, self._usage(generation))
        return event if self._opened or not self._chat else self._render_role(generation) + event

    def render_end(self, generation: Generation, text: str) -> bytes:
        """Return the last text, the finish reason, the usage where wanted, and ``[DONE]``."""
        events = []
        if self._chat:
            if text:
                events.append(self.render_piece(generation, text))
            elif not self._opened:
                events.append(self._render_role(generation))
            delta = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
            events.append(self._render_choice(generation, {"index": 0, "delta": delta, "logprobs": None}))
        else:
            events.append(self._render_choice(generation, {"index": 0, "text": text, "logprobs": None}))
        if self._wants_usage:
            events.append(b'%b],"usage":%b}\n\n' % (self._head, orjson.dumps(_count(generation))))
        return b"".join([*events, DONE])

    def render_whole(self, generation: Generation, text: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        choice: dict[str, Any] = {"index": 0}
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, **_render_finish(generation)}
        if self._meta_info is not None:
            choice["meta_info"] = self._meta_info(generation)
        body = {
            "id": self._request.request_id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
            "usage": _count(generation),
            "metadata": {"weight_version": "default"},
        }
        return orjson.dumps(body)

    def render_refusal(self, message: str) -> bytes:
        """Return OpenAI's error object."""
        return render_refusal(message)

    def _render_role(self, generation: Generation) -> bytes:
        self._opened = True
        usage = orjson.dumps(_count(generation, 0)) if self._wants_usage_always else b"null"
        opening = b'{"index":0,"delta":{"role":"assistant","content":""'
        return b"%b%b%b%b}\n\n" % (self._head, opening, self._after_text, usage)

    def _render_choice(self, generation: Generation, choice: dict[str, Any]) -> bytes:
        rendered = orjson.dumps(choice | _render_finish(generation))
        return b'%b%b],"usage":%b}\n\n' % (self._head, rendered, self._usage(generation))

    def _usage(self, generation: Generation) -> bytes:
        if not self._wants_usage_always:
            return b"null"
        prompt, answer = len(self._request.prompt_ids), generation.completion_tokens
        return (
            b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null,"reasoning_tokens":0}'
            % (prompt, prompt + answer, answer)
        )


def _count(generation: Generation, completion_tokens: int | None = None) -> dict[str, Any]:
    """Return the usage object; ``completion_tokens`` overrides the count so far."""
    prompt = len(generation.request.prompt_ids)
    answer = generation.completion_tokens if completion_tokens is None else completion_tokens
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + answer,
        "completion_tokens": answer,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


def _render_finish(generation: Generation) -> dict[str, Any]:
    finish = generation.finish
    if finish is None:
        return {"finish_reason": None, "matched_stop": None}
    return {"finish_reason": finish.kind, "matched_stop": finish.matched}


def render_refusal(message: str, field: str | None = None, status: int = 400) -> bytes:
    """Return the body with which the OpenAI endpoints refuse a request."""
    kind = "BadRequestError" if status == 400 else "ServiceUnavailableError"
    return orjson.dumps({"object": "error", "message": message, "type": kind, "param": field, "code": status})
