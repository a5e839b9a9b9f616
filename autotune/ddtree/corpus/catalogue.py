"""Which families exist, and which of them the model never sees in training."""

from __future__ import annotations

import dataclasses
import functools

from autotune.ddtree.corpus import lists, numbers, patterns, tables, text
from autotune.ddtree.corpus.family import Family
from autotune.ddtree.corpus.wordings import WORDINGS


@functools.cache
def families() -> tuple[Family, ...]:
    """All families in a fixed order; ``topic`` and ``held_out`` are filled in."""
    written = (("numbers", numbers), ("lists", lists), ("strings", text), ("dictionaries, matrices and graphs", tables))
    named = [
        dataclasses.replace(family, topic=topic, descriptions=(*family.descriptions, *WORDINGS.get(family.name, ())))
        for topic, module in written
        for family in module.FAMILIES
    ]
    return (*named, *patterns.FAMILIES)


def trained_families() -> tuple[Family, ...]:
    """Families that training may use."""
    return tuple(family for family in families() if not family.held_out)


def held_out_families() -> tuple[Family, ...]:
    """Families that training never uses."""
    return tuple(family for family in families() if family.held_out)
