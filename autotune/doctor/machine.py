"""Can the machine of the tuner carry a night? Sandbox, disk, processors, memory, and the login it is started from."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.local_host import LocalHost
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, ok, problem, skipped, warning
from autotune.errors import HostBusyError
from autotune.evaluation.sandbox import ADDED, DEMANDED, Sandbox
from autotune.measuring_mark import Work, find_workers
from autotune.settings import EvaluationSettings, StudySettings

GIB: Final = 2**30
MIB: Final = 2**20
_LEAST_DISK: Final = 200 * MIB
_ENOUGH_DISK: Final = 2 * GIB
_ENOUGH_MEMORY: Final = 2 * GIB
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Processors that may be used, and memory that is free, in bytes; ``None`` when the kernel does not say."""

    processors: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """The login that this process belongs to.

    Attributes:
        is_login: whether it runs in the scope of a login session, which ends with the login where the host says so.
        is_remote: whether the terminal came over SSH.
        is_kept: whether tmux or screen keeps it when the terminal goes.
        is_ended: whether this machine ends everything of a login with it (``KillUserProcesses=yes``), tmux too.
    """

    is_login: bool
    is_remote: bool
    is_kept: bool
    is_ended: bool = False


def examine_machine(exam: Examination, settings: StudySettings, directory: Path) -> None:
    """Look at the machine on which this runs."""
    if settings.evaluation.enabled:
        exam.ask("sandbox", lambda: check_sandbox(settings.evaluation), judge_sandbox)
    else:
        exam.note("sandbox", skipped("evaluation.enabled = false: no generated code is run"))
    exam.ask("disk here", lambda: measure_free_bytes(directory), lambda free: judge_disk(free, str(directory)))
    exam.ask("processors and memory", measure_capacity, judge_capacity)
    exam.ask("other commands", look_for_others, judge_others)
    exam.ask("session", lambda: look_at_session(os.environ), judge_session)
    exam.skip_rest(Area.MACHINE, "not looked at")


def check_sandbox(evaluation: EvaluationSettings) -> tuple[str, ...]:
    """Run a program that tries to get out, and return the layers that held it.

    Raises:
        SandboxUnavailable: it can, and the settings do not accept that.
    """
    accepts = evaluation.isolation != "required"
    return Sandbox(evaluation.time_limit_s, evaluation.memory_limit_mb * MIB, accept_gaps=accepts).check()


def judge_sandbox(layers: Sequence[str]) -> Judgement:
    """Name the layers that hold generated code here; missing ones that are demanded were accepted by the settings."""
    gaps = [layer for layer in DEMANDED if layer not in layers]
    if gaps:
        return warning(
            f"generated code runs without {', '.join(gaps)}, as evaluation.isolation says",
            "run the tuner where Landlock and seccomp are offered, or trust every model that it asks",
        )
    around = [layer for layer in ADDED if layer in layers]
    return ok(f"holds a program that tries to get out; around it {', '.join(around) or 'nothing more'}")


def measure_free_bytes(path: Path) -> int:
    """Return the room on the disk that holds a path or will hold it."""
    absolute = path.absolute()
    return shutil.disk_usage(next(place for place in (absolute, *absolute.parents) if place.exists())).free


def judge_disk(free_bytes: int, place: str) -> Judgement:
    """Say whether records and logs of a night fit."""
    found = f"{free_bytes / GIB:.1f} GiB free for {place}"
    if free_bytes < _LEAST_DISK:
        return problem(found, "make room: records and logs of a night take some hundred MiB")
    if free_bytes < _ENOUGH_DISK:
        return warning(found, "make room: a long night of a talkative server may need more")
    return ok(found)


def measure_capacity() -> Capacity:
    """Count processors and free memory."""
    memory = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return Capacity(len(os.sched_getaffinity(0)), None if memory is None else int(memory[1]) * 1024)


def judge_capacity(capacity: Capacity) -> Judgement:
    """Say whether the load generator has room; a server of this machine needs more, which its first boot shows."""
    memory = "an unknown part of memory" if capacity.memory_bytes is None else f"{capacity.memory_bytes / GIB:.1f} GiB"
    found = f"{capacity.processors} processors, {memory} free"
    if capacity.processors < 2:
        return warning(found, "give it two: on one, the load generator takes time from what it measures")
    if capacity.memory_bytes is not None and capacity.memory_bytes < _ENOUGH_MEMORY:
        return warning(found, "end what else runs here")
    return ok(found)


def look_for_others() -> Mapping[Work, tuple[int, ...]]:
    """Return the ids of other processes by what they do on this machine."""
    return {work: find_workers(work) for work in Work}


def judge_others(others: Mapping[Work, Sequence[int]]) -> Judgement:
    """Say whether a night would be refused because programs are judged here, or be measured beside something else."""
    if judging := others.get(Work.JUDGING):
        return problem(
            f"process {judging[0]} of autotune evaluates on this machine, so no night begins beside it",
            "wait until it has ended",
            HostBusyError,
        )
    if measuring := others.get(Work.MEASURING):
        return warning(
            f"process {measuring[0]} of autotune measures on this machine too",
            "wait until it has ended: what it takes of the machine, and the programs that it judges, would be in the figures",
        )
    return ok("no other command measures or judges here")


def look_at_session(environment: Mapping[str, str], cgroup: Path = Path("/proc/self/cgroup")) -> Session:
    """See which login this process belongs to."""
    try:
        groups = cgroup.read_text(encoding="utf-8", errors="replace")
    except OSError:
        groups = ""
    is_login = re.search(r"/session-[^/]+\.scope", groups) is not None
    return Session(
        is_login=is_login,
        is_remote="SSH_CONNECTION" in environment,
        is_kept="TMUX" in environment or "STY" in environment,
        is_ended=is_login and ends_logins(LocalHost()),
    )


def ends_logins(host: Host) -> bool:
    """Whether a machine ends all processes of a login with it; False where nobody manages logins."""
    service, path = "org.freedesktop.login1", "/org/freedesktop/login1"
    command = ("busctl", "get-property", service, path, f"{service}.Manager", "KillUserProcesses")
    return host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True).text.split() == ["b", "true"]


def judge_session(session: Session) -> Judgement:
    """Say whether a night would end with the login: a closed terminal is SIGHUP, and the tuner then restores and ends."""
    if session.is_login and session.is_ended:
        return warning(
            "KillUserProcesses=yes: everything that this login has started ends with it, tmux too",
            "loginctl enable-linger, then start with: systemd-run --user --scope tmux",
        )
    if session.is_kept:
        return ok("tmux or screen keeps this terminal")
    if session.is_remote:
        return warning(
            "this terminal came over SSH; when it closes, a night started from it ends",
            "start inside tmux or screen, or: systemd-run --user --pty --same-dir autotune optimize ...",
        )
    if session.is_login:
        return warning(
            "this is a login session; when its terminal closes, a night started from it ends",
            "start inside tmux or screen",
        )
    return ok("no login session that could end")
