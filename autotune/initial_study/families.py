"""Which family of servers is this, by the flags that it takes? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autotune.errors import UserError
from autotune.found_configuration import find_flag
from autotune.initial_study.facts import Facts

EMBEDDED: Final = "ddtree"


@dataclass(frozen=True, slots=True)
class Family:
    """Servers with the same parameters.

    Attributes:
        space: the packaged search space.
        title: for people.
        algorithm: what ``--speculative-algorithm`` is set to.
        flags: all of them are taken, and tell the family from others.
        is_paged_by_one: whether it refuses another ``--page-size`` than 1.
        tree_backend: attention backend without which it refuses a tree.
        is_greedy: whether it refuses requests that sample.
    """

    space: str
    title: str
    algorithm: str
    flags: tuple[str, ...]
    is_paged_by_one: bool = False
    tree_backend: str | None = None
    is_greedy: bool = False


FAMILIES: Final = (
    Family(
        EMBEDDED, "the embedded server", "DDTREE", ("--speculative-ddtree-budget", "--speculative-ddtree-clip-width")
    ),
    Family(
        "ddtree_v2",
        "SGLang with DDTree v2",
        "DDTREE",
        ("--speculative-ddtree-budget", "--speculative-ddtree-block-size"),
    ),
    Family(
        "ddtree_sglang",
        "SGLang with the DDTree of #29907",
        "DDTREE",
        ("--speculative-ddtree-budget",),
        is_paged_by_one=True,
        tree_backend="triton",
    ),
    Family(
        "dflash_tree",
        "SGLang with the DFLASH tree of #36196",
        "DFLASH",
        ("--speculative-dflash-tree-width",),
        is_greedy=True,
    ),
    Family("dflash", "SGLang with DFLASH", "DFLASH", ("--speculative-dflash-block-size",)),
)
"""The more special one first: the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A family, why it is the one, and why others are not whose flags the server takes too."""

    family: Family
    because: str
    why_not: tuple[str, ...]


def choose_family(facts: Facts) -> Choice:
    """Return the family of a server.

    Raises:
        UserError: none fits; what was looked for is said.
    """
    why_not: list[str] = []
    for family in FAMILIES:
        if not all(_takes(facts, flag) for flag in family.flags):
            continue
        if facts.algorithm not in {None, family.algorithm}:
            why_not.append(f"{family.title}: the service speculates with {facts.algorithm}, not {family.algorithm}")
            continue
        page_size = facts.ask_number("page_size", "--page-size")
        if family.is_paged_by_one and page_size not in {None, 1.0}:
            why_not.append(
                f"{family.title}: it needs --page-size 1, and the service runs with {page_size:.0f}; change the unit, with "
                "an attention backend that takes it, to search there"
            )
            continue
        evidence = f"according to {facts.supported_by}" if facts.supported_by else "as its command shows"
        return Choice(family, f"it takes {', '.join(family.flags)} {evidence}", tuple(why_not))
    looked = "; ".join(f"{family.title}: {', '.join(family.flags)}" for family in FAMILIES)
    if why_not:
        raise UserError("no search space fits this server: " + "; ".join(why_not), where=facts.unit)
    known = facts.supported is not None
    raise UserError(
        f"this server takes none of the flags that a search space is known for ({looked})"
        if known
        else f"nobody tells which flags this server takes, and its command has none of those looked for ({looked})",
        where=facts.unit,
        hint="write a search space of your own (docs/decisions/0004-search-spaces-are-files.md) and name it in a study"
        if known
        else "start the service, so that its /server_info can be asked, then run this again",
    )


def _takes(facts: Facts, flag: str) -> bool:
    """Whether a server takes a flag: what it says; where it says nothing, that its command has it."""
    told = facts.supports(flag)
    return find_flag(facts.command, flag) is not None if told is None else told
