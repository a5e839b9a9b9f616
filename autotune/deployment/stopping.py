"""Stop a service and prove that nothing of it is left: no process, no GPU memory, nobody on its port.

Only systemd ends processes here, and only those of the service's own control group.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from autotune.clock import Clock
from autotune.deployment.gpu import GpuMemory, GpuProcess, find_busy, find_foreign, find_gpus_of, read_gpu_memory
from autotune.deployment.host import Host
from autotune.deployment.lease import Lease
from autotune.deployment.port_owner import PortOwner, find_port_owner
from autotune.deployment.unit import UnitState
from autotune.deployment.unit_process import list_cgroup_pids, read_process
from autotune.deployment.unit_reader import read_state
from autotune.errors import HostError, PortTakenError, UnitStateError

_ENDED: Final = frozenset({"inactive", "failed"})
_LOOK_AGAIN_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 2.0
_END_MARGIN_S: Final = 30.0
_GROUP_PATIENCE_S: Final = 20.0
_GPU_PATIENCE_S: Final = 60.0
_FOREIGN_PATIENCE_S: Final = 5.0
_PORT_PATIENCE_S: Final = 20.0
_Found = TypeVar("_Found")


class Stopper:
    """Stops one service.

    Args:
        host: connected.
        lease: every change goes through it.
        unit: name of the service.
        address: that its server listens on.
        port: its port.
        gpu_idle_mb: memory that a GPU may hold when its server has stopped, in MiB.
        stop_timeout_s: patience between SIGTERM and SIGKILL, as the drop-in says it too.
        clock: what is waited by.
        on_finding: told what could not be checked.
    """

    def __init__(
        self,
        host: Host,
        lease: Lease,
        unit: str,
        *,
        address: str,
        port: int,
        gpu_idle_mb: int,
        stop_timeout_s: float,
        clock: Clock,
        on_finding: Callable[[str], None],
    ) -> None:
        self._host = host
        self._lease = lease
        self._unit = unit
        self._address = address
        self._port = port
        self._gpu_idle_mb = gpu_idle_mb
        self._stop_timeout_s = stop_timeout_s
        self._clock = clock
        self._on_finding = on_finding
        self._gpus: frozenset[str] = frozenset()
        self._is_blindness_told = False

    def stop(self) -> None:
        """Stop the service if it is up, then wait until nothing of it is left.

        Raises:
            PortTakenError: somebody else is on its port.
            UnitStateError: systemd does not get it stopped.
            HostError: a process or GPU memory is left; the message names it.
        """
        state = read_state(self._host, self._unit)
        group = state.control_group or f"/system.slice/{self._unit}"
        self._remember_gpus(group)
        if state.active_state not in _ENDED:
            self._ask_to_stop()
            self._wait_until_ended()
        self._end_group(group)
        self._wait_for_gpus()
        self._wait_for_port()

    def check_gpus(self, state: UnitState) -> None:
        """Refuse, before anything is stopped, GPUs that somebody else uses too.

        Raises:
            HostError: a process that is not of the service holds their memory; the message names it.
        """
        memory = self._wait(_FOREIGN_PATIENCE_S, lambda: self._find_shared_gpus(state))
        if memory is None:
            return
        foreign = find_foreign(memory, list_cgroup_pids(self._host, state.control_group), self._gpu_idle_mb)
        raise HostError(
            f"{self._name_holders(memory, foreign)}, and is not of the service: beside it no stop could be seen to be "
            "complete, and its load would be measured too",
            where=f"{self._unit} on {self._host.name}",
            hint="stop it for the night; if its memory may stay, raise deployment.gpu_idle_mb",
        )

    def _find_shared_gpus(self, state: UnitState) -> GpuMemory | None:
        """Return what the GPUs hold when some of it is held by others; a process may just have begun or ended."""
        memory = read_gpu_memory(self._host)
        if memory is None:
            return None
        pids = list_cgroup_pids(self._host, state.control_group)
        return memory if find_foreign(memory, pids, self._gpu_idle_mb) else None

    def find_owner(self) -> PortOwner | None:
        """Return who listens on the server's port."""
        return find_port_owner(self._host, self._address, self._port)

    def _ask_to_stop(self) -> None:
        command = ("systemctl", "stop", "--no-block", "--no-ask-password", "--", self._unit)
        self._host.expect(command, self._lease.run_as_root(command, is_idempotent=True))

    def _wait_until_ended(self) -> None:
        """Wait for systemd, which asks with SIGTERM, has patience, and then kills what is left of the group."""
        patience_s = 2 * self._stop_timeout_s + _END_MARGIN_S
        state = self._wait(patience_s, self._find_not_ended)
        if state is not None:
            raise UnitStateError(
                f"it is still {state.active_state} ({state.sub_state}) after {patience_s:.0f} s of stopping",
                where=f"{self._unit} on {self._host.name}",
                hint=f"look at it with systemctl status {self._unit}",
            )

    def _find_not_ended(self) -> UnitState | None:
        state = read_state(self._host, self._unit)
        return None if state.active_state in _ENDED else state

    def _end_group(self, group: str) -> None:
        """End what the unit's KillMode= has spared; it is in the unit's group, so it is the unit's."""
        if not list_cgroup_pids(self._host, group):
            return
        left: tuple[int, ...] | None = None
        for signal in ("SIGTERM", "SIGKILL"):
            command = ("systemctl", "kill", "--kill-who=all", f"--signal={signal}", "--", self._unit)
            self._lease.run_as_root(command, is_idempotent=True)
            left = self._wait(_GROUP_PATIENCE_S, lambda: list_cgroup_pids(self._host, group) or None)
            if left is None:
                return
        raise HostError(
            f"{self._name_processes(left or ())} of the service does not end, not even by SIGKILL",
            where=f"{self._unit} on {self._host.name}",
            hint="a process that hangs in the kernel usually needs a reboot; see dmesg",
        )

    def _remember_gpus(self, group: str) -> None:
        """Learn which GPUs the service uses, so that other users of other GPUs are left out of the question."""
        memory = read_gpu_memory(self._host)
        if memory is not None:
            self._gpus = find_gpus_of(memory, list_cgroup_pids(self._host, group)) or self._gpus

    def _wait_for_gpus(self) -> None:
        memory = self._wait(_GPU_PATIENCE_S, self._find_busy_gpus)
        if memory is None:
            return
        busy = find_busy(memory, self._gpus, self._gpu_idle_mb)
        holders = [process for process in memory.processes if process.gpu in busy]
        gpus = ", ".join(f"{memory.names[gpu]} {memory.used_mb[gpu]} MiB" for gpu in busy)
        who = self._name_holders(memory, holders) if holders else "the GPU tool does not say who"
        raise HostError(
            f"the service has stopped, but GPU memory is still held ({gpus}): {who}; it is not ours to kill",
            where=self._host.name,
            hint="end it yourself, or raise deployment.gpu_idle_mb if that memory belongs to somebody who may stay",
        )

    def _find_busy_gpus(self) -> GpuMemory | None:
        memory = read_gpu_memory(self._host)
        if memory is None:
            if not self._is_blindness_told:
                self._is_blindness_told = True
                self._on_finding(
                    "there is neither nvidia-smi nor rocm-smi, so nobody sees whether GPU memory is free again"
                )
            return None
        return memory if find_busy(memory, self._gpus, self._gpu_idle_mb) else None

    def _wait_for_port(self) -> None:
        owner = self._wait(_PORT_PATIENCE_S, self.find_owner)
        if owner is None:
            return
        raise PortTakenError(
            f"the service has stopped, but {self._name_processes(owner.pids)} still listens on port {self._port}"
            f"{'' if owner.control_group is None else f' from {owner.control_group}'}; it is not ours to kill",
            where=self._host.name,
            hint=f"look at it with ss -ltnp 'sport = :{self._port}' and end it yourself",
        )

    def _name_holders(self, memory: GpuMemory, holders: Sequence[GpuProcess]) -> str:
        return "; ".join(
            f"{self._name_processes((holder.pid,))} holds "
            f"{'an unknown amount' if holder.used_mb is None else f'{holder.used_mb} MiB'} of "
            f"{memory.names.get(holder.gpu, holder.gpu)}"
            for holder in holders
        )

    def _name_processes(self, pids: tuple[int, ...]) -> str:
        return name_processes(self._host, pids)

    def _wait(self, patience_s: float, find: Callable[[], _Found | None]) -> _Found | None:
        """Wait until nothing is found any more; return what is still found when patience is over."""
        deadline = self._clock.monotonic() + patience_s
        pause_s = _LOOK_AGAIN_S
        while (found := find()) is not None:
            if self._clock.monotonic() > deadline:
                return found
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return None


def name_processes(host: Host, pids: tuple[int, ...]) -> str:
    """Name processes of a host with their commands, for a message."""
    names = []
    for pid in pids[:3]:
        facts = read_process(host, pid)
        command = "" if facts is None else f" ({shlex.join(facts.command)[:200]})"
        names.append(f"process {pid}{command}")
    more = f" and {len(pids) - 3} more" if len(pids) > 3 else ""
    return ", ".join(names) + more if names else "a process"
