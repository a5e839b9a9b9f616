"""Will weights, cache and step buffers fit into the memory this process may take?"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from autotune.ddtree.model import ModelConfig
from autotune.ddtree.request import EngineOptions

GIB: Final = 1024**3
_CGROUP: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that one engine takes at its fullest.

    Attributes:
        weights: parameters of target and drafter.
        cache: keys and values of every slot, the drafter's included.
        step: logits, masks and attention scores of one verification of the full batch, and the old cache while the
            cache grows (at most two thirds of the new one).
    """

    weights: int
    cache: int
    step: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.step


def estimate_memory(config: ModelConfig, options: EngineOptions, weights: int) -> MemoryNeed:
    """Return what an engine with these options needs when every slot is full.

    Args:
        config: sizes of the target.
        options: how the engine decodes.
        weights: bytes of all parameters.
    """
    item = getattr(torch, options.dtype).itemsize
    nodes = 1 if options.budget is None else options.budget + 1
    slots, context = options.max_running_requests, options.context_length + nodes
    layers = config.layers + (0 if options.budget is None else config.drafter_layers)
    cache = slots * context * layers * 2 * config.width * item
    logits = slots * nodes * config.vocabulary * 4
    attention = slots * nodes * context * (config.heads * item + 1)
    return MemoryNeed(weights, cache, logits + attention + cache * 2 // 3)


def check_memory(need: MemoryNeed, device: str, fraction: float) -> int:
    """Refuse to start an engine that would run out of memory once it is busy; return the bytes that stay free then.

    Args:
        need: what it takes.
        device: ``"cpu"`` or ``"cuda"``.
        fraction: share of the free memory that it may take.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else free_memory()
    allowed = int(free * fraction)
    if need.total > allowed:
        name = "CUDA" if device == "cuda" else "CPU"
        raise torch.OutOfMemoryError(
            f"{name} out of memory. Tried to allocate {need.total / GIB:.2f} GiB "
            f"(weights {need.weights / GIB:.2f}, KV cache {need.cache / GIB:.2f}, step buffers {need.step / GIB:.2f}); "
            f"{free / GIB:.2f} GiB are free and --mem-fraction-static {fraction:g} allows {allowed / GIB:.2f} GiB. "
            "Lower --max-running-requests, --context-length or --speculative-ddtree-budget."
        )
    return allowed - need.total


def free_memory() -> int:
    """Return the bytes this process may still take: the least of the machine's, its control group's and its own limit."""
    limits = [_available_bytes()]
    limits += [room for room in (_cgroup_room(), _address_space()) if room is not None]
    return max(min(limits), 0)


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise RuntimeError("/proc/meminfo does not say how much memory is available")


def _cgroup_room() -> int | None:
    """Bytes left in the control group; ``None`` when it has no limit that can be read."""
    for limit_file, usage_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit = (_CGROUP / limit_file).read_text(encoding="ascii").strip()
            usage = (_CGROUP / usage_file).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return None if limit == "max" else int(limit) - int(usage)
    return None


def _address_space() -> int | None:
    """Limit on the address space of this process; ``None`` when there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
