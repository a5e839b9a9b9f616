"""What goes wrong in a night on a real host: a fixed case of each kind; ``python -m tests.host.campaign`` plays all faults.

Every kind has a case in each run: here as a whole night, or where a test of a part shows it on a real host for less.

- crash at start: test_systemd_deployment.py::test_a_crash_at_the_start_is_seen_at_once_and_not_repeated
- restart loop at start: test_apply.py::test_a_server_that_does_not_come_up_is_put_back[crash-4-ended]
- never ready: test_apply.py::test_a_server_that_does_not_come_up_is_put_back[unready-4-not ready after]
- refused arguments: test_apply.py::test_a_server_that_does_not_come_up_is_put_back[refuse-4-the server refused its arguments]
- out of memory after a while of loading: here
- start limit hit: test_systemd_deployment.py::test_starts_that_systemd_counts_keep_neither_trials_nor_the_baseline_down
- port taken: test_systemd_deployment.py::test_a_foreign_server_on_the_port_is_named_and_left_alone
- escaped process with GPU memory: test_systemd_deployment.py::test_gpu_memory_held_by_an_escaped_process_ends_the_study_with_its_name
- foreign later drop-in: test_systemd_deployment.py::test_a_later_drop_in_of_somebody_else_is_found_before_anything_is_changed
- foreign traffic in a cell: here
- cable pulled, stop: test_systemd_over_ssh.py::test_a_cable_pulled_in_the_middle_of_a_stop_blames_the_host
- cable pulled, load: test_systemd_over_ssh.py::test_a_host_that_cannot_be_reached_any_more_puts_itself_back[load]
- cable pulled, bench: here
- cable pulled, restore: test_systemd_over_ssh.py::test_a_restore_waits_for_the_cable
- tuner gone for good: test_restore.py::test_a_host_whose_tuner_was_killed_restores_itself_when_the_lease_is_over
- host rebooted in mid-trial: here
- sudo without one command: test_systemd_over_ssh.py::test_a_user_who_may_not_do_one_thing_is_told_which
- kill -9 of the tuner: test_restore.py::test_wherever_a_tuner_is_killed_the_service_is_put_back
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from tests.host.campaign import choose
from tests.host.container import Container
from tests.host.fault_run import play
from tests.host.faults import Fault, list_faults, list_groups
from tests.host.lab import Lab
from tests.host.tuner_process import Place

SEED = int(os.environ.get("AUTOTUNE_FAULT_SEED", "1"))

CASES = {
    "out of memory after a while of loading": ("out of memory after 3 s", Place.ON_HOST),
    "foreign traffic in a cell": ("foreign traffic in a cell", Place.ROOT),
    "cable pulled, bench": ("cable pulled for good: bench", Place.USER),
    "host rebooted in mid-trial": ("rebooted in mid-trial", Place.USER),
}
"""The kinds that are played here each time: which fault, and where its tuner runs."""


def draw() -> list[tuple[Fault, Place]]:
    """Choose a fault of each group by the seed, each with a place for its tuner."""
    generator = random.Random(SEED)  # noqa: S311 - chance, not secrecy
    faults = [generator.choice(group) for group in list_groups().values()]
    return [(fault, generator.choice([place for place in Place if choose([fault], place, [])])) for fault in faults]


def find_cases() -> list[tuple[Fault, Place]]:
    """Return what :data:`CASES` names."""
    faults = {fault.name: fault for fault in list_faults()}
    return [(faults[name], place) for name, place in CASES.values()]


def list_parameters() -> list[object]:
    """Return the fixed cases and, for a campaign, what the seed draws beside them."""
    fixed = find_cases()
    names = [(fault.name, place) for fault, place in fixed]
    others = [(fault, place) for fault, place in draw() if (fault.name, place) not in names]
    return [
        *(pytest.param(fault, place, id=f"{fault.name}, {place.value}") for fault, place in fixed),
        *(
            pytest.param(fault, place, id=f"{fault.name}, {place.value}", marks=pytest.mark.campaign)
            for fault, place in others
        ),
    ]


@pytest.mark.parametrize(("fault", "place"), list_parameters())
def test_a_fault_gets_the_right_verdict_and_leaves_the_host_as_it_was(
    fault: Fault, place: Place, lab: Lab, host: Container, tmp_path: Path
):
    result = play(lab, host, fault, place, tmp_path, SEED)

    assert result.problems == (), result.text[-4000:]


def test_every_kind_of_fault_has_a_case_that_is_played_each_time(request: pytest.FixtureRequest):
    listed = dict(re.findall(r"(?m)^- (.+?): (here|test_\w+\.py::.+)$", __doc__ or ""))
    elsewhere = {kind: test for kind, test in listed.items() if test != "here"}
    collected: set[str] = set()
    for name in {test.partition("::")[0] for test in elsewhere.values()}:
        module = pytest.Module.from_parent(request.session, path=Path(__file__).with_name(name))
        for item in request.session.genitems(module):
            if item.get_closest_marker("campaign") is None:
                collected.add(f"{name}::{item.name}")

    assert len(listed) == sum(line.startswith("- ") for line in (__doc__ or "").splitlines())
    assert {kind for kind, test in listed.items() if test == "here"} == set(CASES)
    assert {kind: test for kind, test in elsewhere.items() if test not in collected} == {}
