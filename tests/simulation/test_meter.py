from __future__ import annotations

import collections
import math
import statistics
from typing import Any

import pytest

from autotune.errors import NothingSucceeded
from autotune.interval import MIN_PAIRS, compare_cells
from autotune.objectives import check_cell, check_evaluation
from autotune.settings import BenchmarkSettings, CellSettings
from autotune.simulation.clock import SimulatedClock
from autotune.simulation.faults import FaultSettings
from autotune.simulation.host import SimulatedHost
from autotune.simulation.meter import SimulatedBenchmark, SimulatedEvaluation, simulate_cell
from autotune.simulation.noise import BootId, NightNoise, NoiseSettings
from autotune.simulation.surface import CellTruth
from autotune.trial import Cell, CellMeasurement, Figure, Verdict
from tests.simulation.small_surface import SmallSurface

BUSY = CellSettings(context=1024, concurrency=32)
SINGLE = CellSettings(context=1024, concurrency=1)
TRUTH = CellTruth(step_time_s=0.02, accept_length=4.0, prefill_s=1.0)
QUIET = NightNoise(NoiseSettings(between=0, inside=0, drift=0, prompts=0, interaction=0), 1)
NOISY = NightNoise(NoiseSettings(), 1)
SETTINGS: BenchmarkSettings = SmallSurface().settings.benchmark
CONFIGURATION = {"budget": 8, "topk": 4, "window": None, "block": 16}


def measure(
    cell: CellSettings = BUSY,
    noise: NightNoise = QUIET,
    boot: BootId = BootId(1, 1),  # noqa: B008  # frozen
    key: str = "a",
    **more: Any,
) -> CellMeasurement:
    return simulate_cell(TRUTH, cell, SETTINGS, noise, boot, key, **more)


def test_without_noise_the_truth_is_measured():
    measured = measure()

    assert measured.decode_tokens_per_s.value == pytest.approx(32 * 4 / 0.02)
    assert measured.accept_length == Figure(4.0, 64)
    assert measured.step_time_s is not None
    assert measured.step_time_s.value == pytest.approx(0.02)
    assert (measured.requests, measured.output_tokens, measured.prompt_tokens) == (64, 64 * 512, 64 * 1024)
    assert measured.duration_s == pytest.approx(2 * (1.0 + 512 * 0.02 / 4))
    assert measured.ttft_s == Figure(1.0, 64)
    check_cell(measured)


def test_prompts_of_a_cell_have_the_mean_speed_of_one_of_its_streams():
    measured = measure(noise=NOISY)
    mean = statistics.fmean(measured.per_prompt_log_speed.values())

    assert len(measured.per_prompt_log_speed) == 64
    assert math.exp(mean) * 32 == pytest.approx(measured.decode_tokens_per_s.value)


def test_a_cell_at_one_user_has_an_interval_and_one_of_two_batches_has_none():
    single, busy = measure(SINGLE, NOISY), measure(BUSY, NOISY)

    assert single.decode_tokens_per_s.low is not None
    assert single.decode_tokens_per_s.low < single.decode_tokens_per_s.value < (single.decode_tokens_per_s.high or 0)
    assert busy.decode_tokens_per_s.low is None


def test_two_configurations_in_one_boot_are_compared_by_prompt():
    noise = NightNoise(NoiseSettings(between=0.05, prompts=0.2), 1)
    ours = simulate_cell(TRUTH, SINGLE, SETTINGS, noise, BootId(2, 1), "a")
    theirs = simulate_cell(TRUTH, SINGLE, SETTINGS, noise, BootId(2, 1), "b")
    ratio = compare_cells([(ours, theirs)], [1.0])

    assert ratio.pairs == len(ours.per_prompt_log_speed) >= MIN_PAIRS
    assert ratio.high is not None
    assert ratio.high - ratio.value < 0.1  # the prompts themselves differ by 0.2


def test_rounds_are_measured_until_they_are_precise_enough():
    asked: list[int] = []

    def wants_round(logs) -> bool:
        asked.append(len(logs))
        return len(asked) < 2

    measured = measure(noise=NOISY, wants_round=wants_round)
    endless = measure(noise=NOISY, wants_round=lambda _logs: True)

    assert len(measured.round_log_speeds) == 2
    assert measured.requests == 128
    assert measured.duration_s == pytest.approx(2 * measure(noise=NOISY).duration_s)
    assert len(endless.round_log_speeds) == SETTINGS.max_rounds
    assert measure(noise=NOISY).round_log_speeds == ()


def test_no_round_goes_beyond_the_time_that_a_cell_may_take():
    slow = CellTruth(step_time_s=1.0, accept_length=None, prefill_s=1.0)
    measured = simulate_cell(slow, SINGLE, SETTINGS, NOISY, BootId(0, 0), "a", lambda _logs: True)

    assert measured.round_log_speeds == ()
    assert measured.accept_length is None


def make_host(**shares: float) -> SimulatedHost:
    host = SimulatedHost(SmallSurface(), SimulatedClock(), NightNoise(NoiseSettings(), 1), FaultSettings(**shares))
    host.stop()
    host.start(CONFIGURATION)
    host.clock.sleep(700)
    return host


def make_benchmark(host: SimulatedHost) -> SimulatedBenchmark:
    return SimulatedBenchmark(host, SETTINGS, CONFIGURATION, "key", lambda _cell, _logs: False)


def test_measuring_takes_simulated_time_warm_up_included():
    host = make_host()
    before = host.clock.monotonic()
    measured = make_benchmark(host).measure_cell(BUSY)

    assert host.clock.monotonic() - before > measured.duration_s


def test_a_server_that_dies_in_a_cell_answers_nothing():
    host = make_host(crash=1.0)
    benchmark = make_benchmark(host)

    with pytest.raises(NothingSucceeded):
        collections.deque(map(benchmark.measure_cell, (BUSY, SINGLE)), maxlen=0)
    assert host.exit_code == -9
    with pytest.raises(NothingSucceeded):
        SimulatedEvaluation(host, SmallSurface().settings.evaluation, CONFIGURATION, Cell(1024, 32)).run()


def test_a_canary_is_the_prefill_rate_and_every_hearing_errs_by_itself():
    host = make_host()
    benchmark = make_benchmark(host)
    heard = [benchmark.measure_canary() for _ in range(2)]
    values = [figure.value for figure in heard if figure is not None]
    truth = host.surface.truth(CONFIGURATION, Cell(1024, 1))

    assert values[0] != values[1]
    assert values == pytest.approx([1024 / truth.prefill_s] * 2, rel=0.05)


def test_coding_problems_pass_as_often_as_the_surface_says_and_alike_in_every_boot():
    host = make_host()
    settings = SmallSurface().settings.evaluation.model_copy(update={"problems": 400})
    first = SimulatedEvaluation(host, settings, CONFIGURATION, Cell(1024, 32)).run()
    host.count_results = lambda: 5
    second = SimulatedEvaluation(host, settings, CONFIGURATION, Cell(1024, 32)).run()
    changed = [one.problem for one, two in zip(first.results, second.results, strict=True) if one != two]

    assert first.pass_at_1.value == pytest.approx(0.8, abs=0.06)
    assert {result.verdict for result in first.results} == {Verdict.PASSED, Verdict.WRONG}
    assert 0 < len(changed) < 40
    check_evaluation(first)


def test_steps_are_counted_by_what_they_accept():
    counts = measure(accepts_at_least=(0.75, 0.5, 0.25)).accepted_histogram

    assert counts == (64 * 512 // 16,) * 4
    assert measure().accepted_histogram == ()
