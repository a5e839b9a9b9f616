"""Fixtures of the tests on real hosts: ``lab``, and ``host``, which every test gets as it was when it had just booted.

Without root or the packages they are skipped with the reason; where ``CI`` or ``AUTOTUNE_TEST_HOST`` is set they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.container import Container
from tests.host.lab import Lab, list_environment
from tests.host.pristine import Pristine
from tests.host.service import install_stand_ins

PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "dbus-daemon": "dbus",
    "sudo": "sudo",
    "nsenter": "util-linux",
    "/usr/bin/python3": "python3",
}


LONGEST = (
    "test_whole_night.py",
    "test_faults.py",
    "test_dry_run.py",
    "test_each_rollback_takes_one_apply_back",
    "test_an_apply_puts_the_result_into_service",
    "test_apply.py",
    "test_systemd_over_ssh.py",
    "test_restore.py",
)
"""Parts of the names of tests that take long, longest first: begun last, they would keep a machine waiting for one."""


def find_obstacle() -> str | None:
    """Say why there can be no test host here; ``None`` when there can."""
    if os.geteuid() != 0:
        return "a test host needs root: it is a container with systemd and a network of its own"
    search = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = sorted({package for tool, package in PACKAGES.items() if shutil.which(tool, path=search) is None})
    if missing:
        return f"a test host needs these packages (Debian): apt-get install {' '.join(missing)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).is_relative_to(Path(__file__).parent):
            item.add_marker("host")
    items[:] = _begin_with_longest(items)


def _begin_with_longest(items: list[pytest.Item]) -> list[pytest.Item]:
    """Order tests by how long they take; a process is handed two at first, so each of the first has a short one behind it."""
    rank = {item: next((i for i, part in enumerate(LONGEST) if part in item.nodeid), len(LONGEST)) for item in items}
    ordered = sorted(items, key=rank.__getitem__)
    first = [item for item in ordered if rank[item] < 2]
    count = min(len(first), len(ordered) - len(first))
    short = ordered[len(ordered) - count :]
    pairs = [item for pair in zip(first, short, strict=False) for item in pair]
    return [*pairs, *first[count:], *ordered[len(first) : len(ordered) - count]]


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The network that the host is on, and from which a tuner reaches it."""
    obstacle = find_obstacle()
    if obstacle is not None:
        if os.environ.get("CI") or os.environ.get("AUTOTUNE_TEST_HOST"):
            pytest.fail(obstacle)
        pytest.skip(obstacle)
    with Lab() as lab:
        yield lab


@pytest.fixture(scope="session")
def booted(lab: Lab) -> Pristine:
    container = lab.host("gpu1", users=("ubuntu",), binds=list_environment(), boot=False)
    install_stand_ins(container)
    return Pristine(container.boot())


@pytest.fixture
def host(booted: Pristine) -> Iterator[Container]:
    """A host with systemd, sshd, this checkout, two stand-in GPUs and a user ``ubuntu`` with sudo; no service yet."""
    booted.put_back()
    yield booted.container
    booted.container.link(is_up=True)
