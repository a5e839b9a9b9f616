"""How much memory do the GPUs of a host hold, and for whom? Asked of nvidia-smi or rocm-smi, whichever is there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.deployment.host import Host
from autotune.errors import HostError

_NVIDIA_MEMORY = ("nvidia-smi", "--query-gpu=index,uuid,memory.used", "--format=csv,noheader,nounits")
_NVIDIA_PROCESSES = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
_ROCM_MEMORY = ("rocm-smi", "--showmeminfo", "vram", "--json")
_NOT_FOUND = (126, 127)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU.

    Attributes:
        gpu: key of the GPU, as in :class:`GpuMemory`.
        pid: process id, as the GPU's driver sees it.
        used_mb: MiB; ``None`` when the driver does not say.
    """

    gpu: str
    pid: int
    used_mb: int | None


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """The memory in use on each GPU.

    Attributes:
        used_mb: MiB by key of the GPU; the key tells GPUs apart and is not meant for people.
        names: what people call a GPU, by its key.
        processes: who holds it, as far as the tool tells.
    """

    used_mb: Mapping[str, int]
    names: Mapping[str, str]
    processes: tuple[GpuProcess, ...] = ()


def read_gpu_memory(host: Host) -> GpuMemory | None:
    """Ask the host's GPU tool; ``None`` when it has none.

    Raises:
        SshError: the host cannot be asked.
        HostError: the tool fails.
    """
    output = host.run(_NVIDIA_MEMORY, is_idempotent=True)
    if output.exit_code not in _NOT_FOUND:
        if output.exit_code != 0:
            raise HostError(
                f"nvidia-smi fails: {output.complaint}", where=host.name, hint="see whether the GPUs are well"
            )
        processes = host.run(_NVIDIA_PROCESSES, is_idempotent=True)
        return parse_nvidia(output.text, processes.text if processes.exit_code == 0 else "")
    output = host.run(_ROCM_MEMORY, is_idempotent=True)
    if output.exit_code in _NOT_FOUND:
        return None
    if output.exit_code != 0:
        raise HostError(f"rocm-smi fails: {output.complaint}", where=host.name, hint="see whether the GPUs are well")
    return parse_rocm(output.text)


def parse_nvidia(memory: str, processes: str = "") -> GpuMemory:
    r"""Read the two tables of nvidia-smi.

    >>> parse_nvidia("0, GPU-a, 71234\n1, GPU-b, 3\n", "GPU-a, 4711, 71000\n").processes
    (GpuProcess(gpu='GPU-a', pid=4711, used_mb=71000),)

    Raises:
        HostError: the first table is not one.
    """
    used: dict[str, int] = {}
    names: dict[str, str] = {}
    for index, uuid, amount in _rows(memory, 3):
        number = _number(amount)
        if number is not None:  # "[N/A]" where the driver keeps it to itself
            used[uuid] = number
        names[uuid] = f"GPU {index}"
    if not names:
        raise HostError(f"nvidia-smi printed no table: {memory[:200]!r}", hint="see whether the GPUs are well")
    found = tuple(
        GpuProcess(uuid, int(pid), _number(amount)) for uuid, pid, amount in _rows(processes, 3) if pid.isdecimal()
    )
    return GpuMemory(used, names, found)


def parse_rocm(text: str) -> GpuMemory:
    """Read the JSON of rocm-smi.

    >>> parse_rocm('{"card0": {"VRAM Total Memory (B)": "99", "VRAM Total Used Memory (B)": "10485760"}}').used_mb
    {'card0': 10}

    Raises:
        HostError: it is not what rocm-smi prints.
    """
    try:
        cards: dict[str, Any] = json.loads(text[text.index("{") :])
        used = {
            card: int(values["VRAM Total Used Memory (B)"]) // 2**20
            for card, values in cards.items()
            if card.startswith("card")
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f"rocm-smi printed no table: {text[:200]!r}", hint="see whether the GPUs are well") from error
    return GpuMemory(used, {card: f"GPU {card.removeprefix('card')}" for card in used})


def find_gpus_of(memory: GpuMemory, pids: Sequence[int]) -> frozenset[str]:
    """Return the GPUs on which any of these processes holds memory."""
    return frozenset(process.gpu for process in memory.processes if process.pid in pids)


def find_foreign(memory: GpuMemory, pids: Sequence[int], idle_mb: int) -> tuple[GpuProcess, ...]:
    """Return the processes that hold memory of a service's GPUs and are not its own.

    Args:
        memory: what is in use now.
        pids: processes of the service; where they hold nothing, all GPUs count, as it may use any.
        idle_mb: what each of them may hold; one of which the driver does not say how much it holds is returned too.
    """
    ours = find_gpus_of(memory, pids)
    return tuple(
        item
        for item in memory.processes
        if item.pid not in pids and (not ours or item.gpu in ours) and (item.used_mb is None or item.used_mb > idle_mb)
    )


def find_busy(memory: GpuMemory, gpus: frozenset[str], idle_mb: int) -> tuple[str, ...]:
    """Return the keys of the GPUs that hold more than they should when their server has stopped.

    Args:
        memory: what is in use now.
        gpus: the GPUs to look at; empty means all.
        idle_mb: what a GPU may hold.
    """
    return tuple(key for key, used in memory.used_mb.items() if used > idle_mb and (not gpus or key in gpus))


def _rows(text: str, fields: int) -> list[list[str]]:
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == fields]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
