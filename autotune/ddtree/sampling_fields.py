"""Which sampling does a request ask for, and which of its wishes can this server not fulfil?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from autotune.ddtree.request_body import Body

_GREEDY_BELOW: Final = 1e-6
"""Temperatures below this are greedy, as on SGLang."""

_SPECULATION: Final = "this server verifies drafts and has no such path"


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What holds for a request that does not say; from the model's generation defaults."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1

    @classmethod
    def load(cls, directory: Path) -> SamplingDefaults:
        """Read ``generation_config.json`` of a weights directory; plain sampling when there is none."""
        path = directory / "generation_config.json"
        if not path.is_file():
            return cls()
        fields = Body(orjson.loads(path.read_bytes()), f"{path}: ")
        return parse_sampling(fields, cls()).as_defaults()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens of one answer are chosen; the words are those of :class:`~autotune.ddtree.request.GenerationRequest`."""

    temperature: float
    top_p: float
    top_k: int

    def as_defaults(self) -> SamplingDefaults:
        """Return the same values as defaults."""
        return SamplingDefaults(self.temperature, self.top_p, self.top_k)


def parse_sampling(body: Body, defaults: SamplingDefaults) -> Sampling:
    """Read temperature, top_p and top_k.

    Raises:
        BodyError: a value is out of range.
    """
    temperature = body.number("temperature")
    if temperature is None:
        temperature = defaults.temperature
    if temperature < 0:
        raise body.error("temperature", "must be at least 0")
    top_p = body.number("top_p")
    if top_p is None:
        top_p = defaults.top_p
    if not 0 < top_p <= 1:
        raise body.error("top_p", "must be above 0 and at most 1")
    top_k = body.integer("top_k")
    if top_k is None:
        top_k = defaults.top_k
    if top_k != -1 and top_k < 1:
        raise body.error("top_k", "must be at least 1, or -1 for all")
    return Sampling(0.0 if temperature < _GREEDY_BELOW else temperature, top_p, top_k)


def parse_seed(body: Body, name: str) -> int | None:
    """Read a seed.

    Raises:
        BodyError: it is no whole number that fits 63 bits.
    """
    return body.integer(name, minimum=0, maximum=2**63 - 1)


def parse_stop(body: Body) -> tuple[str, ...]:
    """Read the stop strings.

    Raises:
        BodyError: they are no strings, empty, or more than 16.
    """
    stop = body.strings("stop")
    if len(stop) > 16:
        raise body.error("stop", "may name at most 16 strings")
    return stop


def refuse_unsupported(body: Body) -> None:
    """Refuse wishes that change what an answer is and that this server cannot fulfil.

    Raises:
        BodyError: naming the first such field.
    """
    for name in ("n", "best_of"):
        body.refuse(name, (1,), "one answer per request; send the request again with another seed")
    for name in ("logprobs", "return_logprob", "echo", "return_hidden_states"):
        body.refuse(name, (False,), _SPECULATION)
    for name in ("top_logprobs", "top_logprobs_num"):
        body.refuse(name, (0,), _SPECULATION)
    for name in ("regex", "ebnf", "json_schema", "structural_tag"):
        body.refuse(name, ("",), "grammars do not work with speculation")
    if body.record("response_format").text("type") not in (None, "text"):
        raise body.error("response_format", "is not supported: grammars do not work with speculation")
    for name in ("frequency_penalty", "presence_penalty", "min_p"):
        body.refuse(name, (0, 0.0), _SPECULATION)
    body.refuse("repetition_penalty", (1, 1.0), _SPECULATION)
    body.refuse("logit_bias", ({},), _SPECULATION)
    body.refuse("suffix", ("",), "the model only continues")
    body.refuse("tools", ([],), "the model calls no tools")
    body.refuse("stop_token_ids", ([],), "name a stop string")
    body.refuse("no_stop_trim", (False,), "stop strings are always trimmed")
    body.refuse("skip_special_tokens", (True,), "special tokens have no text")
