"""Looking at GPUs beside a measurement."""

from __future__ import annotations

import threading

from autotune.deployment.gpu_activity import GpuSample
from autotune.errors import HostError
from autotune.tuner.boot_watch import BootWatch

SAMPLE = GpuSample("GPU-a", "GPU 0", 1900.0, 500.0, 60.0, frozenset())


def test_gpus_are_looked_at_again_and_again_until_it_is_over():
    looked = threading.Semaphore(0)

    def sample() -> tuple[GpuSample, ...]:
        looked.release()
        return (SAMPLE,)

    with BootWatch(sample, period_s=0.001) as watch:
        for _ in range(3):
            assert looked.acquire(timeout=10)
        found = watch.activity()

    assert found[0].clock_mhz == 1900.0
    assert found[0].samples >= 2


def test_a_host_without_gpus_is_looked_at_once():
    looks: list[int] = []

    def sample() -> tuple[GpuSample, ...]:
        looks.append(1)
        return ()

    with BootWatch(sample, period_s=0.0) as watch:
        watch.wait()

    assert looks == [1]
    assert watch.activity() == ()


def test_a_host_that_cannot_be_asked_is_left_alone():
    def sample() -> tuple[GpuSample, ...]:
        raise HostError("the connection is lost")

    with BootWatch(sample) as watch:
        watch.wait()

    assert watch.activity() == ()
