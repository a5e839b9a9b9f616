"""How long does a proposal of the grey-box sampler take, and how long is the look for an end, after so many trials?

::

    python -m tests.benchmarks.proposal_speed --trials 20 100 300

Trials of a formula, drawn at random from the embedded server's search space; one proposal each from a fresh sampler, so that
the fit is in it, and one look for an end after it. Seconds of CPU.
"""

from __future__ import annotations

import argparse
import random
import time

from autotune.sampling.greybox.sampler import GreyboxSampler
from tests.sampling.greybox.small_surface import SPACE, Server


def time_proposal(trials: int) -> tuple[float, float]:
    """Return the seconds of CPU of a proposal after so many trials, and of the look for an end."""
    rng = random.Random(1)  # noqa: S311
    server = Server(noise=0.02)
    server.boot_all(["budget=0", "budget=15,topk=1"])
    for configuration in rng.sample(SPACE.configurations, trials - 2):
        server.boot(configuration)
    history, sampler = server.history(), GreyboxSampler()
    started_s = time.process_time()
    sampler.propose(history, SPACE, (), rng)
    proposed_s = time.process_time()
    sampler.explain_exhaustion(history, SPACE)
    return proposed_s - started_s, time.process_time() - proposed_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[20, 100, 300])
    print("trials  proposal  end")
    for trials in parser.parse_args().trials:
        proposal_s, end_s = time_proposal(trials)
        print(f"{trials:6}  {proposal_s:7.2f}s  {end_s:.2f}s")


if __name__ == "__main__":
    main()
