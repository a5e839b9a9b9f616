"""What stands in the way on the machine of the service: leftovers, the port, disks, the journal, the GPUs?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from autotune.apply.opening import check_nothing_open
from autotune.deployment.gpu import GpuMemory, find_busy, find_foreign, find_gpus_of, read_gpu_memory
from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file
from autotune.deployment.lease import RUN_FOLDER, explain_busy, find_folder
from autotune.deployment.lease_holder import LeaseHolder, read_holder, read_remaining_s
from autotune.deployment.port_owner import PortOwner, find_port_owner
from autotune.deployment.systemd_unit import trial_drop_in_path
from autotune.deployment.unit import LaunchKind
from autotune.deployment.unit_checks import check_address
from autotune.deployment.unit_process import list_cgroup_pids
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, judge_error, ok, problem, skipped, warning
from autotune.doctor.journal import examine_journal
from autotune.doctor.service import ServiceFacts
from autotune.errors import HostBusyError, HostError, PortTakenError, UnitStateError
from autotune.export.wording import render_duration
from autotune.settings import StudySettings

MIB: Final = 2**20
_LEAST_RUN: Final = 4 * MIB
_LEAST_LOG: Final = 200 * MIB
_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What an earlier night left on the host.

    Attributes:
        holder: of the lease; ``None`` when there is none.
        remaining_s: until the host puts the baseline back by itself; ``None`` when no timer runs.
        busy: what a second tuner is told; ``None`` without a lease.
        others: units of this host whose lease somebody holds: one tuner works on a host at a time.
        has_drop_in: whether our drop-in is there.
        restored: what the host noted when it put the baseline back by itself; empty when it did not.
        half_done: an apply or a rollback that was begun and never ended; ``None`` when there is none.
    """

    holder: LeaseHolder | None
    remaining_s: float | None
    busy: HostBusyError | None
    others: tuple[str, ...]
    has_drop_in: bool
    restored: str
    half_done: UnitStateError | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """One mounted disk: room in bytes, and whether it can be written."""

    path: str
    free_bytes: int
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class Gpus:
    """Memory of the GPUs, and the processes of the service."""

    memory: GpuMemory | None
    pids: tuple[int, ...]


def examine_host(exam: Examination, host: Host, settings: StudySettings, service: ServiceFacts) -> float | None:
    """Look at the machine of the service; return the load time that its journal shows, in seconds."""
    exam.ask(
        "leftovers",
        lambda: look_for_leftovers(host, service.name),
        lambda found: judge_leftovers(found, settings.name),
    )
    state = service.state
    group = "" if state is None else state.control_group
    members = _list_pids(host, group)
    exam.ask(
        "port",
        lambda: _find_owner(host, settings, service),
        lambda owner: judge_port(
            owner,
            group,
            members,
            f"{settings.server.host}:{settings.server.port}",
            is_up=state is not None and state.is_up,
        ),
    )
    exam.ask("disk there", lambda: look_at_disks(host), judge_disks)
    load_s = examine_journal(exam, host, settings, service)
    exam.ask(
        "accelerators",
        lambda: Gpus(read_gpu_memory(host), members),
        lambda gpus: judge_gpus(gpus, settings.deployment.gpu_idle_mb, is_up=state is not None and state.is_up),
    )
    exam.ask("accelerator errors", lambda: read_kernel_log(host), judge_kernel_log)
    exam.skip_rest(Area.HOST, "needs unit")
    return load_s


def _find_owner(host: Host, settings: StudySettings, service: ServiceFacts) -> PortOwner | None:
    """Look who listens where the study says.

    Raises:
        UserError: the service's server listens elsewhere.
    """
    server, unit = settings.server, service.unit
    command = unit.argv if unit is not None and unit.launch_kind is LaunchKind.DIRECT else ()
    words = command if service.process is None else service.process.command
    check_address(words, server.host, server.port, service.name)
    return find_port_owner(host, server.host, server.port)


def look_for_leftovers(host: Host, unit: str) -> Leftovers:
    """Look for a lease, our drop-in and the note of the host's own restore."""
    folder = find_folder(unit)
    holder = read_holder(host, folder)
    note = read_file(host, f"{folder}/restored")
    leases = host.run(
        ("find", RUN_FOLDER, "-maxdepth", "2", "-name", "lease"), timeout_s=_TIMEOUT_S, is_idempotent=True
    )
    units = {line.removeprefix(f"{RUN_FOLDER}/").removesuffix("/lease") for line in leases.text.splitlines()}
    return Leftovers(
        holder=holder,
        remaining_s=None if holder is None else read_remaining_s(host, holder.timer),
        busy=None if holder is None else explain_busy(host, unit),
        others=tuple(sorted(units - {folder.removeprefix(f"{RUN_FOLDER}/")})),
        has_drop_in=read_file(host, trial_drop_in_path(unit)) is not None,
        restored="" if note is None else " ".join(note.decode("utf-8", errors="replace").split()),
        half_done=_find_half_done(host, unit),
    )


def is_at_work(host: Host, unit: str) -> bool:
    """Whether a tuner that is not known to be gone holds the service; False when that cannot be read."""
    try:
        holder = read_holder(host, find_folder(unit))
    except HostError:
        return False
    return holder is not None and not holder.is_gone


def judge_leftovers(found: Leftovers, study: str) -> Judgement:
    """Say what is left, and who will put it back."""
    if found.holder is not None and found.busy is not None:
        if found.holder.is_gone:
            until = (
                ""
                if found.remaining_s is None
                else f"; the host does it by itself in {render_duration(found.remaining_s)}"
            )
            return warning(
                f"a tuner that is gone held the service: {found.holder.holder}, study {found.holder.study}{until}",
                f"autotune restore {study}; the next optimize does the same first",
            )
        return judge_error(found.busy)
    if found.others:
        return problem(
            f"another tuner works on this host, on {', '.join(found.others)}",
            "wait for it: one tuner works on a host at a time",
            HostBusyError,
        )
    if found.half_done is not None:
        return judge_error(found.half_done)
    if found.has_drop_in:
        return problem(
            "the drop-in of a trial is there, and no tuner holds the service",
            f"autotune restore {study}; where that finds nothing: remove the file, systemctl daemon-reload, restart the service",
            UnitStateError,
        )
    if found.restored:
        return warning(
            f"the host put the baseline back by itself: {found.restored}",
            "see why that tuner ended; the next one goes on",
        )
    return ok("nothing is left of an earlier night")


def _find_half_done(host: Host, unit: str) -> UnitStateError | None:
    try:
        check_nothing_open(host, unit)
    except UnitStateError as error:
        return error
    return None


def _list_pids(host: Host, group: str) -> tuple[int, ...]:
    try:
        return list_cgroup_pids(host, group)
    except HostError:
        return ()


def judge_port(owner: PortOwner | None, group: str, pids: tuple[int, ...], address: str, *, is_up: bool) -> Judgement:
    """Say who listens on the server's port."""
    if owner is None:
        if is_up:
            return warning(
                f"the service runs and nobody listens at {address}",
                "wait until it has loaded, or correct server.host and server.port",
            )
        return ok(f"nobody listens at {address}")
    if owner.belongs_to(group, pids):
        return ok(f"the service listens at {owner.address}:{owner.port}")
    who = f"process {owner.pids[0]}" if owner.pids else "a process that this user may not look into"
    where = "" if owner.control_group is None else f" of {owner.control_group}"
    return problem(
        f"{who}{where} listens at {owner.address}:{owner.port}, and it is not the service",
        "stop it, or correct server.port; it is never stopped by us",
        PortTakenError,
    )


def look_at_disks(host: Host) -> tuple[Disk, ...]:
    """Return the disks of drop-ins and records, and of the journal.

    Raises:
        HostError: the host does not say.
    """
    paths = ("/run", "/var/log")
    command = ("df", "--output=avail", "--block-size=1", "--", *paths)
    output = host.expect(command, host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True))
    free = [int(line) for line in output.text.split()[1:] if line.isdecimal()]
    mounts = host.run(("cat", "/proc/self/mounts"), timeout_s=_TIMEOUT_S, is_idempotent=True)
    if len(free) != len(paths):
        raise HostError(f"df printed {output.text[:200]!r}", where=host.name)
    return tuple(
        Disk(path, room, is_mounted_read_only(mounts.text, path)) for path, room in zip(paths, free, strict=True)
    )


def is_mounted_read_only(mounts: str, path: str) -> bool:
    r"""Whether the mount that holds a path is read-only, by ``/proc/self/mounts``.

    >>> is_mounted_read_only("/dev/sda / ext4 rw 0 0\ntmpfs /run tmpfs ro,nosuid 0 0\n", "/run")
    True
    """
    rows = [line.split() for line in mounts.splitlines()]
    holding = [
        (len(row[1]), index, row[3].split(","))
        for index, row in enumerate(rows)
        if len(row) >= 4 and (path == row[1] or path.startswith(f"{row[1].rstrip('/')}/"))
    ]
    return bool(holding) and "ro" in max(holding)[2]


def judge_disks(disks: tuple[Disk, ...]) -> Judgement:
    """Say whether drop-in, record and journal have room."""
    said = ", ".join(f"{disk.path} {disk.free_bytes / MIB:.0f} MiB" for disk in disks)
    read_only = [disk.path for disk in disks if disk.is_read_only]
    if "/run" in read_only:
        return problem("/run is read-only", "a night writes its drop-in there")
    for disk in disks:
        if disk.path == "/run" and disk.free_bytes < _LEAST_RUN:
            return problem(f"free: {said}", "make room in /run: drop-in and record go there")
        if disk.path != "/run" and disk.free_bytes < _LEAST_LOG:
            return warning(f"free: {said}", "make room for the journal: journalctl --vacuum-size=200M")
    return ok(f"free: {said}")


def judge_gpus(gpus: Gpus, idle_mb: int, *, is_up: bool) -> Judgement:
    """Say what the GPUs hold, and whether that will be gone when the service has stopped."""
    memory = gpus.memory
    if memory is None:
        return warning(
            "neither nvidia-smi nor rocm-smi is there",
            "install the tool of the driver; until then memory that a stopped server keeps is not seen",
        )
    held = ", ".join(f"{memory.names.get(key, key)} {used} MiB" for key, used in memory.used_mb.items())
    ours = find_gpus_of(memory, gpus.pids)
    foreign = find_foreign(memory, gpus.pids, idle_mb)
    if foreign:
        who = ", ".join(f"process {item.pid} on {memory.names.get(item.gpu, item.gpu)}" for item in foreign)
        return problem(
            f"{who} holds memory and is not of the service ({held})",
            "stop it: beside it no stop of the server can be seen to be complete",
        )
    busy = find_busy(memory, ours, idle_mb)
    if busy and not is_up:
        return problem(
            f"the service does not run and its GPUs hold memory: {held}",
            "find out what holds it (nvidia-smi), or raise deployment.gpu_idle_mb",
        )
    return ok(held or "no GPU is listed")


def read_kernel_log(host: Host) -> tuple[str, ...] | None:
    """Return the lines of GPU errors since the host started; ``None`` when the log may not be read."""
    command = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager", "--output=short-iso", "--lines=20000")
    output = host.run_as_root(command, timeout_s=_TIMEOUT_S, is_idempotent=True)
    return None if output.exit_code != 0 else find_gpu_errors(output.text)


def find_gpu_errors(text: str) -> tuple[str, ...]:
    r"""Return the lines in which a driver reports an error of a GPU.

    >>> find_gpu_errors("a kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\nb kernel: usb 1-1\n")
    ('a kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.',)
    """
    return tuple(line for line in text.splitlines() if _GPU_ERROR.search(line))


_GPU_ERROR: Final = re.compile(
    r"NVRM: Xid \(|amdgpu.*(?:GPU reset begin|GPU fault detected|ring \S+ timeout|uncorrectable)"
)


def judge_kernel_log(lines: tuple[str, ...] | None) -> Judgement:
    """Say whether a GPU had errors."""
    if lines is None:
        return skipped("the kernel's log cannot be read")
    if lines:
        return warning(
            f"{len(lines)} lines about GPU errors since the host started, the last: {lines[-1]}",
            "see to that GPU first; its figures cannot be trusted",
        )
    return ok("none in the kernel's log since the host started")
