from __future__ import annotations

import pytest

from autotune.errors import ConfigurationRejected, ConnectionLostError, OutOfMemory
from autotune.servers.sglang_log import classify_failure, find_fatal_line, find_free_memory
from autotune.simulation.catalogue import open_surface
from autotune.simulation.clock import SimulatedClock
from autotune.simulation.faults import FaultSettings
from autotune.simulation.host import STOP_S, SimulatedHost
from autotune.simulation.noise import BootId, NightNoise, NoiseSettings
from tests.simulation.small_surface import SmallSurface

TREE = {"budget": 8, "topk": 4, "window": None, "block": 16}
TOO_LARGE = {**TREE, "budget": 64}
REFUSED = {**TREE, "budget": 2}


def make_host(**shares: float) -> SimulatedHost:
    return SimulatedHost(SmallSurface(), SimulatedClock(), NightNoise(NoiseSettings(), 1), FaultSettings(**shares))


def restart(host: SimulatedHost, configuration) -> None:
    host.stop()
    host.start(configuration)


def test_the_baseline_is_found_running():
    host = make_host()

    assert host.is_ready
    assert host.pid is not None
    assert host.configuration == host.surface.space.resolve(host.surface.settings.baseline)
    assert host.boot == BootId(0, 0)


def test_a_boot_takes_about_as_long_as_the_surface_says():
    host = make_host()
    restart(host, TREE)
    assert host.clock.monotonic() == STOP_S
    host.clock.sleep(500)
    was_ready = host.is_ready
    host.clock.sleep(200)

    assert (was_ready, host.is_ready) == (False, True)
    assert host.exit_code is None
    assert host.log[-1].endswith("The server is fired up and ready to roll!")


def test_a_log_grows_while_a_server_loads():
    host = make_host()
    restart(host, TREE)
    lengths = []
    for _ in range(4):
        lengths.append(len(host.log))
        host.clock.sleep(125)

    assert lengths == sorted(set(lengths))


def test_memory_that_runs_out_ends_the_boot_with_the_words_of_a_real_server():
    host = make_host()
    restart(host, TOO_LARGE)
    before = host.exit_code
    host.clock.sleep(700)

    assert (before, host.exit_code) == (None, 1)
    assert host.pid is None
    assert not host.is_ready
    assert find_fatal_line(host.log) is not None
    assert isinstance(classify_failure(host.log, host.exit_code), OutOfMemory)


def test_refused_arguments_end_it_at_once():
    host = make_host()
    restart(host, REFUSED)
    host.clock.sleep(30)

    assert isinstance(classify_failure(host.log, host.exit_code), ConfigurationRejected)


def test_a_server_that_hangs_never_answers_and_writes_no_more():
    host = make_host(hang=1.0)
    restart(host, TREE)
    host.clock.sleep(400)
    before = host.log
    host.clock.sleep(10_000)

    assert host.log == before
    assert (host.exit_code, host.is_ready) == (None, False)


def test_a_connection_breaks_once():
    host = make_host(loss=1.0)
    restart(host, TREE)
    host.check_connection()
    host.clock.sleep(400)

    with pytest.raises(ConnectionLostError):
        host.check_connection()
    host.check_connection()


def test_a_server_that_crashes_dies_in_exactly_one_cell():
    host = make_host(crash=1.0)
    restart(host, TREE)
    host.clock.sleep(700)
    deaths = [host.enter_cell() for _ in range(2)]
    host.kill()

    assert sum(deaths) == 1
    assert host.exit_code == -9


def test_the_baseline_comes_back_whatever_goes_wrong():
    host = make_host(hang=1.0)
    restart(host, TREE)
    host.stop()
    host.start_baseline()
    host.clock.sleep(700)

    assert host.is_ready


def test_boots_are_counted_by_the_results_before_them():
    host = make_host()
    results = [0]
    host.count_results = lambda: results[0]
    found = [host.boot]
    restart(host, TREE)
    found.append(host.boot)
    restart(host, TREE)
    found.append(host.boot)
    results[0] = 1
    found.append(host.boot)
    restart(host, TREE)
    found.append(host.boot)

    assert found == [BootId(0, 0), BootId(0, 1), BootId(0, 2), BootId(1, 0), BootId(1, 1)]


def test_a_server_says_how_much_memory_it_left_free():
    surface = open_surface("brim")
    host = SimulatedHost(surface, SimulatedClock(), NightNoise(NoiseSettings(), 1), FaultSettings())
    configuration = surface.space.resolve(surface.settings.baseline)
    restart(host, configuration)
    host.clock.sleep(900)

    said, true = find_free_memory(host.log), surface.free_memory_gb(configuration)

    assert said is not None
    assert true is not None
    assert said != true
    assert abs(said - true) < 0.2


def test_a_machine_whose_memory_is_not_imagined_says_nothing_of_it():
    host = make_host()
    restart(host, TREE)
    host.clock.sleep(900)

    assert find_free_memory(host.log) is None
