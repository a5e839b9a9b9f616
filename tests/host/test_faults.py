"""What goes wrong in a night on a real host: a slice of the campaign, chosen by a seed; ``python -m tests.host.campaign`` is all."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.host.campaign import choose
from tests.host.container import Container
from tests.host.fault_run import play
from tests.host.faults import Fault, list_groups
from tests.host.lab import Lab
from tests.host.tuner_process import Place

SEED = int(os.environ.get("AUTOTUNE_FAULT_SEED", "1"))


def draw() -> list[tuple[Fault, Place]]:
    """Choose a fault of each group, each with a place for its tuner."""
    generator = random.Random(SEED)  # noqa: S311 - chance, not secrecy
    faults = [generator.choice(group) for group in list_groups().values()]
    return [(fault, generator.choice([place for place in Place if choose([fault], place, [])])) for fault in faults]


@pytest.mark.parametrize(("fault", "place"), [pytest.param(f, p, id=f"{f.name}, {p.value}") for f, p in draw()])
def test_a_fault_gets_the_right_verdict_and_leaves_the_host_as_it_was(
    fault: Fault, place: Place, lab: Lab, host: Container, tmp_path: Path
):
    result = play(lab, host, fault, place, tmp_path, SEED)

    assert result.problems == (), result.text[-4000:]
