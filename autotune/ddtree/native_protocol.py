"""SGLang's own ``/generate``: what does the body ask for, and how is it answered?"""

from __future__ import annotations

import difflib
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

_DEFAULT_MAX_NEW_TOKENS: Final = 128

_SAMPLING_NAMES: Final = (
    "max_new_tokens",
    "min_new_tokens",
    "temperature",
    "top_p",
    "top_k",
    "sampling_seed",
    "stop",
    "ignore_eos",
    "n",
    "stop_token_ids",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "regex",
    "ebnf",
    "json_schema",
    "structural_tag",
    "logit_bias",
    "no_stop_trim",
    "skip_special_tokens",
    "spaces_between_special_tokens",
)


class NativeProtocol:
    """Reads and answers ``/generate``.

    Args:
        prompter: turns prompts into tokens.
        defaults: sampling of requests that state none.
        block: block size; ``None`` while decoding plainly.
        clock: monotonic seconds.
    """

    def __init__(
        self, prompter: Prompter, defaults: SamplingDefaults, block: int | None, clock: Callable[[], float]
    ) -> None:
        self._prompter = prompter
        self._defaults = defaults
        self._block = block
        self._clock = clock

    def parse(self, body: Body, request_id: str) -> Order:
        """Read a request body.

        Args:
            body: the JSON object.
            request_id: used when the body brings no ``rid``.

        Raises:
            BodyError: the request cannot be served.
        """
        sampling = body.record("sampling_params")
        for name in sampling.names():
            if name not in _SAMPLING_NAMES:
                near = difflib.get_close_matches(name, _SAMPLING_NAMES, 1)
                hint = f"; did you mean {near[0]}?" if near else "."
                raise BodyError(f"sampling_params.{name} is unknown{hint}", f"sampling_params.{name}")
        refuse_unsupported(body)
        refuse_unsupported(sampling)
        prompt_ids = self._parse_prompt(body)
        limit = sampling.integer("max_new_tokens", minimum=1)
        if limit is None:
            max_new_tokens = min(_DEFAULT_MAX_NEW_TOKENS, self._prompter.check_room(len(prompt_ids), None))
        else:
            max_new_tokens = self._prompter.check_room(len(prompt_ids), limit)
        chosen = parse_sampling(sampling, self._defaults)
        request = GenerationRequest(
            request_id=body.text("rid") or request_id,
            prompt_ids=tuple(prompt_ids),
            max_new_tokens=max_new_tokens,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            top_k=chosen.top_k,
            seed=parse_seed(sampling, "sampling_seed"),
            ignore_eos=sampling.switch("ignore_eos"),
            min_new_tokens=sampling.integer("min_new_tokens", minimum=0, maximum=max_new_tokens) or 0,
        )
        rendering = NativeRendering(self._block, self._clock)
        return Order(request, parse_stop(sampling), body.switch("stream"), rendering)

    def _parse_prompt(self, body: Body) -> list[int]:
        text, ids = body.raw("text"), body.raw("input_ids")
        if (text is None) == (ids is None):
            raise BodyError("The request must have either text or input_ids.")
        if ids is not None:
            if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], list):
                ids = ids[0]
            if not is_token_list(ids):
                raise body.error(
                    "input_ids", "must be one non-empty list of token numbers; send one prompt per request"
                )
            self._prompter.check_ids(ids)
            return list(ids)
        if isinstance(text, list) and len(text) == 1:
            text = text[0]
        if not isinstance(text, str):
            raise body.error("text", "must be one string; send one prompt per request")
        return self._prompter.encode(text)


class NativeRendering:
    """Answers in SGLang's native form; streamed text is cumulative, as there."""

    def __init__(self, block: int | None, clock: Callable[[], float]) -> None:
        self._block = block
        self._clock = clock
        self._text = ""

    def render_piece(self, generation: Generation, text: str) -> bytes:
        """Return one event with all the text so far."""
        self._text += text
        return b"data: " + orjson.dumps(self._record(generation)) + b"\n\n"

    def render_end(self, generation: Generation, text: str) -> bytes:
        """Return the event with the finish reason, and ``[DONE]``."""
        return self.render_piece(generation, text) + DONE

    def render_whole(self, generation: Generation, text: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        self._text = text
        return orjson.dumps(self._record(generation))

    def render_refusal(self, message: str) -> bytes:
        """Return SGLang's error object."""
        return render_refusal(message)

    def _record(self, generation: Generation) -> dict[str, Any]:
        return {
            "text": self._text,
            "output_ids": generation.token_ids,
            "meta_info": render_meta_info(generation, self._block, self._clock()),
        }


def render_refusal(message: str) -> bytes:
    """Return the body with which the native endpoints refuse a request."""
    return orjson.dumps({"error": {"message": message}})
