"""Which fields of a chat request does a server take? OpenAI's own API refuses those that SGLang and vLLM have added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
    """

    extensions: bool = True
    limit: str = "max_tokens"

    @property
    def description(self) -> str:
        """In words, for notes and files."""
        if self.extensions:
            return "OpenAI's fields, top_k, ignore_eos and continuous usage"
        return f"OpenAI's own fields only, limit in {self.limit}"


CANDIDATES: Final = (
    ApiFields(),
    ApiFields(extensions=False),
    ApiFields(extensions=False, limit="max_completion_tokens"),
)
"""Tried in this order: the more a request can state, the less is left to the server's defaults."""


async def choose_fields(ask: Callable[[ApiFields], Awaitable[RequestRecord]]) -> tuple[ApiFields, RequestRecord]:
    """Return the first fields that a server does not refuse, with the answer; the last ones when it refuses them all.

    Args:
        ask: sends one small request with these fields.
    """
    for fields in CANDIDATES:
        record = await ask(fields)
        if record.is_ok or not (record.error or "").startswith(_REFUSALS):
            break
    return fields, record
