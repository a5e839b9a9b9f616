"""Does any input make a reader of untrusted input fail in a way that is not ours?

::

    python -m tests.fuzz_parsers --minutes 5
    python -m tests.fuzz_parsers --seconds 30 --seed 1

Every target of :mod:`tests.fuzz_targets` gets an equal share of the time, in batches of examples that hypothesis draws from
the seed: the same seed and time begin with the same examples. What an example raises that is no error of
:mod:`autotune.errors`, and one that takes longer than ten seconds, is shown in its smallest form, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from autotune.errors import AutotuneError
from tests.fuzz_targets import TARGETS, Target

BATCH = 250
LONGEST_S = 10.0


class TookTooLong(Exception):
    """One example took longer than any input may."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TookTooLong` in the block once it has taken so long; main thread only."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(target: Target, seconds: float, first_seed: int, clock: Callable[[], float] = time.monotonic) -> int:
    """Feed a target until the time is up, one batch at least; return how many examples it took.

    Raises:
        Exception: what an example raised that is not ours, with the example in its notes.
    """
    examples = 0
    end_s = clock() + seconds

    def check(case: Any) -> None:
        nonlocal examples
        examples += 1
        try:
            with limited(LONGEST_S), contextlib.suppress(AutotuneError):
                target.check(case)
        except Exception as error:
            error.add_note(f"input: {ascii(case)[:2000]}")
            raise

    seeds = random.Random(first_seed)  # noqa: S311  # reproducible, not secret
    while True:
        batch = given(target.strategy)(check)
        batch = seed(seeds.getrandbits(64))(batch)
        batch = settings(
            max_examples=BATCH,
            phases=(Phase.generate, Phase.shrink),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )(batch)
        batch()
        if clock() >= end_s:
            return examples


def run(targets: Sequence[Target], seconds: float, first_seed: int) -> int:
    """Fuzz all targets and print a line for each; return the exit code."""
    failed = 0
    for target in targets:
        try:
            examples = fuzz(target, seconds / len(targets), first_seed)
        except Exception:  # noqa: BLE001  # whatever it is, it is the finding
            failed += 1
            print(f"{target.name}: FAILED\n{traceback.format_exc()}", flush=True)
        else:
            print(f"{target.name}: {examples} examples", flush=True)
    return 1 if failed else 0


def main() -> None:
    """Read the options and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument("--only", choices=[target.name for target in TARGETS], nargs="+")
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60 + arguments.seconds or 30.0
    first_seed = random.SystemRandom().getrandbits(32) if arguments.seed is None else arguments.seed
    targets = [target for target in TARGETS if arguments.only is None or target.name in arguments.only]
    print(f"seed {first_seed}, {seconds:g} s for {len(targets)} targets", flush=True)
    sys.exit(run(targets, seconds, first_seed))


if __name__ == "__main__":
    main()
