"""Which fields of a chat request does a server take? OpenAI's own API refuses those that SGLang and vLLM have added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.benchmark.request_record import RequestRecord

_REFUSALS = ("HTTP 400", "HTTP 422")


@dataclass(frozen=True, slots=True)
class ApiFields:
    """The fields that requests use.

    Attributes:
        extensions: ``top_k``, ``ignore_eos``, ``chat_template_kwargs`` and usage with every chunk are sent too.
        limit: name of the field with the token limit.
        is_native: SGLang's ``/generate`` is asked instead of the chat: no chat template, exact counts with each chunk.
    """

    extensions: bool = True
    limit: str = "max_tokens"
    is_native: bool = False

    @property
    def description(self) -> str:
        """In words, for notes and files."""
        if self.is_native:
            return "SGLang's /generate, without a chat template"
        if self.extensions:
            return "OpenAI's fields, top_k, ignore_eos and continuous usage"
        return f"OpenAI's own fields only, limit in {self.limit}"


CANDIDATES: Final = (
    ApiFields(),
    ApiFields(extensions=False),
    ApiFields(extensions=False, limit="max_completion_tokens"),
)
"""Tried in this order: the more a request can state, the less is left to the server's defaults."""


NATIVE: Final = ApiFields(is_native=True)
"""SGLang's own endpoint; never tried unless it is asked for, because it is not what users of a chat send."""


async def choose_fields(
    ask: Callable[[ApiFields], Awaitable[RequestRecord]], candidates: Sequence[ApiFields] = CANDIDATES
) -> tuple[ApiFields, RequestRecord]:
    """Return the first fields that a server does not refuse, with the answer; the last ones when it refuses them all.

    Args:
        ask: sends one small request with these fields.
        candidates: at least one, in the order in which they are tried.
    """
    for fields in candidates:
        record = await ask(fields)
        if record.is_ok or not (record.error or "").startswith(_REFUSALS):
            break
    return fields, record
