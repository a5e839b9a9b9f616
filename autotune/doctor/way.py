"""Is there a way to the machine of the service: address, host key, login, and do the clocks agree?"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from autotune.clock import Clock
from autotune.deployment.host import Host
from autotune.deployment.local_host import LocalHost
from autotune.deployment.open_host import open_host
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, judge_error, ok, warning
from autotune.errors import AuthError, AutotuneError, HostError, HostKeyError
from autotune.settings import DeploymentSettings

_TIMEOUT_S = 15.0
_LARGEST_DIFFERENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """How far the clock of the host is ahead of ours, and how well that is known, in seconds."""

    ahead_s: float
    uncertain_s: float


def examine_way(exam: Examination, deployment: DeploymentSettings, clock: Clock, stack: ExitStack) -> Host | None:
    """Connect, and say at which step it fails.

    Args:
        exam: where findings go.
        deployment: where the service runs.
        clock: ours.
        stack: closes the connection.

    Returns:
        The connected host; ``None`` when there is no way to it.
    """
    host = _connect(exam, deployment, stack)
    if host is None:
        exam.skip_rest(Area.WAY, "needs login")
    elif isinstance(host, LocalHost):
        exam.skip_rest(Area.WAY, "the service runs on this machine")
    else:
        exam.ask("clocks", lambda: measure_clock(host, clock), judge_clock)
    return host


def _connect(exam: Examination, deployment: DeploymentSettings, stack: ExitStack) -> Host | None:
    try:
        host = stack.enter_context(open_host(deployment))
        user_id = host.user_id
    except HostKeyError as error:
        exam.note("address", ok(f"{deployment.host} answers"))
        exam.note("host key", judge_error(error))
        return None
    except AuthError as error:
        exam.note("address", ok(f"{deployment.host} answers"))
        exam.note("host key", ok("it is the machine that is known"))
        exam.note("login", judge_error(error))
        return None
    except AutotuneError as error:
        exam.note("address", judge_error(error))
        return None
    who = "root" if user_id == 0 else f"user {user_id}, with sudo where root is needed"
    if isinstance(host, LocalHost):
        exam.note("address", ok(f"the service runs on this machine; commands run as {who}"))
    else:
        exam.note("address", ok(f"{host.name} answers"))
        exam.note("host key", ok("it is the machine that is known"))
        exam.note("login", ok(f"let in as {who}"))
    return host


def measure_clock(host: Host, clock: Clock) -> ClockDifference:
    """Ask the host for its time; half of the time that the answer took stays unknown.

    Raises:
        HostError: it does not say.
    """
    before = clock.now().timestamp()
    output = host.expect(("date", "+%s.%N"), host.run(("date", "+%s.%N"), timeout_s=_TIMEOUT_S, is_idempotent=True))
    after = clock.now().timestamp()
    try:
        there = float(output.text)
    except ValueError as error:
        raise HostError(f"date printed {output.text[:80]!r}", where=host.name) from error
    return ClockDifference(there - (before + after) / 2, (after - before) / 2)


def judge_clock(difference: ClockDifference) -> Judgement:
    """Say whether log lines of both machines can be compared.

    >>> judge_clock(ClockDifference(-65.0, 0.1)).found
    'the clock of the host is 65.0 s behind (give or take 0.1 s)'
    """
    ahead_s = difference.ahead_s
    side = "ahead" if ahead_s > 0 else "behind"
    found = f"the clock of the host is {abs(ahead_s):.1f} s {side} (give or take {difference.uncertain_s:.1f} s)"
    if abs(ahead_s) - difference.uncertain_s > _LARGEST_DIFFERENCE_S:
        return warning(found, "let both follow a time server: timedatectl set-ntp true")
    return ok(found)
