"""How are many simulated nights played, on several processes, so that one that was killed goes on where it was?"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

_THREADS: Final = "OMP_NUM_THREADS"


def work_off(
    work: Sequence[Work],
    play: Callable[[Work], Result],
    *,
    processes: int,
    keep: Callable[[Result], None],
    observer: Callable[[int], None],
) -> None:
    """Do every piece of work, in order as far as processes allow, and keep each result as soon as it is there.

    Ctrl-C and every other end leave finished pieces kept; those that run are waited for and kept too.

    Args:
        work: what to do; it and the results must be picklable.
        play: a function of a module, called in a process of its own.
        processes: how many at once; each computes with one thread. 1 plays in this process.
        keep: called here with each result, in the order in which they end.
        observer: called after each with how many are kept.
    """
    if processes == 1:
        for number, piece in enumerate(work, start=1):
            keep(play(piece))
            observer(number)
        return
    context = multiprocessing.get_context("spawn")
    with (
        _one_thread_each(),
        ProcessPoolExecutor(min(processes, max(len(work), 1)), mp_context=context, initializer=_begin_worker) as pool,
    ):
        left = iter(work)
        running: set[Future[Result]] = set()
        kept = 0
        try:
            while True:
                for piece in itertools.islice(left, processes + 1 - len(running)):  # one waits, so that no process does
                    running.add(pool.submit(play, piece))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for result in _results(ended):
                    keep(result)
                    kept += 1
                    observer(kept)
        finally:
            for result in _results([future for future in running if not future.cancel()]):
                keep(result)


def _results(futures: Iterable[Future[Result]]) -> Iterator[Result]:
    """Yield every result, waiting for it; then raise the first error, if there was one."""
    failure: BaseException | None = None
    for future in futures:
        error = future.exception()
        if error is None:
            yield future.result()
        failure = failure or error
    if failure is not None:
        raise failure


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Make processes that are started meanwhile compute with one thread: several with all cores each only wait."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        sys.stderr.flush()
        os._exit(1)
