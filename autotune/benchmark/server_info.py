"""What does a server say of itself in ``/server_info``, as far as figures depend on it? Pure; untrusted input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_BLOCKS = ("speculative_num_draft_tokens", "speculative_dflash_block_size", "speculative_ddtree_block_size")
"""Tokens of one branch that are verified together at most; forks of SGLang name it differently."""
_LONGEST_VERSION = 200


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What was said; ``None`` is not said.

    Attributes:
        accept_length: average since its counters were last reset.
        largest_accept_length: no step can emit more tokens: those drafted and one.
        speculates: whether a speculative algorithm is on.
        version: as the server calls it.
    """

    accept_length: float | None = None
    largest_accept_length: int | None = None
    speculates: bool | None = None
    version: str | None = None


def read_info(body: Any) -> ServerInfo:
    """Read the body of ``/server_info``; what is not what it should be is not said.

    >>> read_info({"speculative_algorithm": "DDTREE", "speculative_num_draft_tokens": 8}).largest_accept_length
    9
    """
    if not isinstance(body, dict):
        return ServerInfo()
    states, nested = body.get("internal_states"), body.get("server_args")
    state = states[0] if isinstance(states, list) and states else None
    flags = {**body, **(nested if isinstance(nested, dict) else {})}
    average = state.get("avg_spec_accept_length") if isinstance(state, dict) else None
    blocks = [flags[name] for name in _BLOCKS if type(flags.get(name)) is int and flags[name] > 0]
    version = flags.get("version")
    return ServerInfo(
        accept_length=_finite(average),
        largest_accept_length=max(blocks) + 1 if blocks else None,
        speculates=flags["speculative_algorithm"] is not None if "speculative_algorithm" in flags else None,
        version=version[:_LONGEST_VERSION] if isinstance(version, str) else None,
    )


def _finite(value: Any) -> float | None:
    """A number that a float can hold; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None
