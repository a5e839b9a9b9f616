"""Matrices of a hundred rows are slower on many threads, which spin between them: the model computes on one.

By threadpoolctl, for the moment and for this process only: an environment variable would reach every server that is started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra use one thread; usable as a decorator."""
    with threadpool_limits(limits=1):
        yield
