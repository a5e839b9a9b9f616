from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from autotune.deployment.base import Occupant
from autotune.deployment.readiness import wait_until_ready
from autotune.errors import OutOfMemory, PortTakenError, ServerCrashed, ServerError, ServerNeverReady
from autotune.servers.base import LaunchSpec, Phase, Probe, ServerDialect
from autotune.servers.sglang_log import classify_failure, find_fatal_line
from autotune.trial import Configuration, ParameterValue
from tests.deployment.fake import FakeDeployment, Fate
from tests.fake_clock import FakeClock

REFUSED = Probe(Phase.REFUSED, "connection refused")
BUSY = Probe(Phase.UNREADY, "status 503")
READY = Probe(Phase.READY, "generated 'a'")


class TimedDialect(ServerDialect):
    """Answers by the clock."""

    def __init__(self, clock: FakeClock, answer: Callable[[float], Probe]) -> None:
        self.clock = clock
        self.answer = answer
        self.probes: list[float] = []

    def render_launch(self, configuration: Configuration) -> LaunchSpec:
        raise NotImplementedError

    def is_speculative(self, configuration: Configuration) -> bool:
        raise NotImplementedError

    def probe(self, url: str) -> Probe:  # noqa: ARG002
        self.probes.append(self.clock.seconds)
        return self.answer(self.clock.seconds)

    def fetch_effective_flags(self, url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        raise NotImplementedError

    def count_requests(self, url: str) -> int | None:
        raise NotImplementedError

    def find_mismatches(self, configuration: Configuration, effective: Mapping[str, ParameterValue]) -> tuple[str, ...]:
        raise NotImplementedError

    def find_configuration(self, effective: Mapping[str, ParameterValue]) -> Configuration | None:
        raise NotImplementedError

    def find_fatal_line(self, log_lines: Sequence[str]) -> str | None:
        return find_fatal_line(log_lines)

    def find_suspicion(self, configuration: Configuration, accept_length: float | None) -> str | None:
        raise NotImplementedError

    def classify_failure(self, log_lines: Sequence[str], exit_code: int | None) -> ServerError:
        return classify_failure(log_lines, exit_code)


class Wait:
    """A start on the imaginary host."""

    def __init__(self, answer: Callable[[float], Probe], fate: Fate | None = None) -> None:
        self.clock = FakeClock()
        self.dialect = TimedDialect(self.clock, answer)
        self.deployment = FakeDeployment(self.clock, LaunchSpec(("server",), {}))
        self.deployment.fates = [fate or Fate()]
        self.deployment.start(LaunchSpec(("server",), {}), None)  # type: ignore[arg-type]

    def __call__(self, *, ready_timeout_s: float = 1800, stall_timeout_s: float = 300) -> float:
        return wait_until_ready(
            self.dialect,
            self.deployment,
            ready_timeout_s=ready_timeout_s,
            stall_timeout_s=stall_timeout_s,
            clock=self.clock,
        )


def test_refused_then_503_then_a_generation_is_ready_after_35_s():
    """Case 1."""
    wait = Wait(lambda s: REFUSED if s < 5 else BUSY if s < 35 else READY)

    ready_after_s = wait()

    pauses = [b - a for a, b in zip(wait.dialect.probes, wait.dialect.probes[1:], strict=False)]
    assert ready_after_s == pytest.approx(35, rel=0.06)
    assert min(pauses) >= 0.099
    assert max(pauses) <= 5


def test_the_deadline_ends_the_wait_with_the_last_answer_and_the_end_of_the_log():
    """Case 1."""
    wait = Wait(lambda _: BUSY, Fate(log={float(s): f"line {s}" for s in range(0, 4000, 10)}))

    with pytest.raises(ServerNeverReady, match="status 503") as failure:
        wait(ready_timeout_s=600)

    assert wait.clock.seconds == pytest.approx(600)
    assert failure.value.log_lines[-1] == "line 600"
    assert len(failure.value.log_lines) == 20


def test_ready_when_generation_works_however_long_the_model_list_has_answered():
    """Case 3: nothing but a generation is asked for."""
    wait = Wait(lambda s: BUSY if s < 20 else READY)

    assert wait() == pytest.approx(20, rel=0.06)


def test_a_process_that_ends_is_seen_at_once_with_its_reason():
    """Case 8."""
    log = {
        1.0: "Load weight begin.",
        59.0: "Traceback (most recent call last):",
        59.1: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        59.2: "Received sigquit from a child process. It usually means the child failed.",
    }
    wait = Wait(lambda _: REFUSED, Fate(ends_after_s=60, exit_code=1, log=log))

    with pytest.raises(OutOfMemory, match="Tried to allocate") as failure:
        wait()

    assert wait.clock.seconds == pytest.approx(60, abs=3)
    assert any("CUDA out of memory" in line for line in failure.value.log_lines)


def test_a_fatal_line_ends_the_wait_while_the_process_lingers():
    wait = Wait(lambda _: REFUSED, Fate(log={30.0: "[2026-01-01 00:00:00] Scheduler hit an exception: Traceback"}))

    with pytest.raises(ServerCrashed):
        wait()

    assert wait.clock.seconds == pytest.approx(30, rel=0.06)


def test_silence_is_a_stall_and_a_growing_log_is_progress():
    """Deadlines follow progress: loading may take an hour as long as the log grows."""
    lines = {float(s): f"shard {s}" for s in range(0, 1000, 100)}
    wait = Wait(lambda _: REFUSED, Fate(log=lines))

    with pytest.raises(ServerNeverReady, match="no progress for 150 s"):
        wait(stall_timeout_s=150)

    assert wait.clock.seconds == pytest.approx(900 + 150, abs=6)


def test_another_phase_is_progress():
    wait = Wait(lambda s: REFUSED if s < 100 else BUSY, Fate(log={0.0: "Load weight begin."}))

    with pytest.raises(ServerNeverReady):
        wait(stall_timeout_s=110)

    assert wait.clock.seconds == pytest.approx(210, abs=6)


def test_a_server_without_a_log_of_ours_is_not_called_stalled():
    wait = Wait(lambda s: REFUSED if s < 500 else READY)

    assert wait(stall_timeout_s=110) == pytest.approx(500, abs=6)


def test_a_generation_of_somebody_else_is_not_readiness():
    wait = Wait(lambda _: READY)
    wait.deployment.occupant = Occupant.FOREIGN

    with pytest.raises(PortTakenError):
        wait()
