from __future__ import annotations

from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.errors import HostError
from autotune.servers.base import Phase
from autotune.simulation.clock import SimulatedClock
from autotune.simulation.deployment import SimulatedDeployment
from autotune.simulation.dialect import SimulatedDialect
from autotune.simulation.faults import FaultSettings
from autotune.simulation.host import SimulatedHost
from autotune.simulation.noise import NightNoise, NoiseSettings
from tests.simulation.small_surface import SmallSurface

LOG = Path("unused")


class Arranged:
    def __init__(self) -> None:
        surface = SmallSurface()
        self.host = SimulatedHost(surface, SimulatedClock(), NightNoise(NoiseSettings(), 1), FaultSettings())
        self.dialect = SimulatedDialect(surface.space, surface.settings.server, self.host)
        self.baseline = self.dialect.render_launch(surface.space.resolve(surface.settings.baseline))
        self.tree = self.dialect.render_launch(surface.space.parse("budget=8"))
        self.deployment = SimulatedDeployment(self.host, self.dialect, self.baseline)


def test_the_baseline_is_found_and_serves_again_afterwards():
    arranged = Arranged()
    with arranged.deployment as deployment:
        found = deployment.observe()
        deployment.stop()
        deployment.start(arranged.tree, LOG)
        ours = deployment.observe()

    assert (found.occupant, found.launch, found.is_listening) == (Occupant.BASELINE, arranged.baseline, True)
    assert (ours.occupant, ours.launch, ours.is_listening) == (Occupant.OURS, arranged.tree, False)
    assert deployment.observe().occupant is Occupant.BASELINE
    assert arranged.host.configuration == arranged.dialect.configuration_of(arranged.baseline)


def test_a_restored_baseline_is_checked_once():
    arranged = Arranged()
    checks: list[bool] = []
    with arranged.deployment as deployment:
        deployment.stop()
        deployment.restore(lambda: checks.append(True))
        deployment.restore(lambda: checks.append(True))

    assert checks == [True]


def test_what_a_killed_command_left_is_put_back_by_the_next():
    arranged = Arranged()
    arranged.deployment.__enter__()
    arranged.deployment.stop()
    arranged.deployment.start(arranged.tree, LOG)

    with SimulatedDeployment(arranged.host, arranged.dialect, arranged.baseline) as deployment:
        assert deployment.observe().occupant is Occupant.BASELINE
        assert arranged.host.configuration == arranged.dialect.configuration_of(arranged.baseline)


def test_two_servers_do_not_run_at_once():
    arranged = Arranged()
    with arranged.deployment as deployment, pytest.raises(HostError, match="runs already"):
        deployment.start(arranged.tree, LOG)


def test_the_flags_read_back_are_those_that_were_started():
    arranged = Arranged()
    configuration = arranged.dialect.configuration_of(arranged.tree)
    with arranged.deployment as deployment:
        deployment.stop()
        deployment.start(arranged.tree, LOG)
        assert arranged.dialect.probe(deployment.url).phase is Phase.REFUSED
        arranged.host.clock.sleep(700)
        effective = arranged.dialect.fetch_effective_flags(deployment.url, {})
        other = {**configuration, "budget": 10}

        assert arranged.dialect.probe(deployment.url).phase is Phase.READY
        assert arranged.dialect.find_mismatches(configuration, effective) == ()
        assert arranged.dialect.find_mismatches(other, effective)
        assert deployment.verify(arranged.tree) == ()
        assert deployment.verify(arranged.baseline)
