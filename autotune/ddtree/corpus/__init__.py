"""The training corpus: families of small Python functions and the chats about them, made by this package alone."""

from __future__ import annotations

from autotune.ddtree.corpus.catalogue import families
from autotune.ddtree.corpus.family import Family

__all__ = ["Family", "families"]
