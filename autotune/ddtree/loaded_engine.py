"""From effective flags to an engine: threads, weights, memory, start-up log lines."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autotune.ddtree.engine import Engine
from autotune.ddtree.memory import check_memory, estimate_memory
from autotune.ddtree.model import Drafter, Target
from autotune.ddtree.request import EngineOptions
from autotune.ddtree.tokenizer import END
from autotune.ddtree.weights import load_drafter, load_target

GIB = 1024**3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """An engine, and what the HTTP process is told of it (the fields of ``EngineInfo`` but the pid)."""

    engine: Engine
    info: dict[str, Any]


def load_engine(flags: Mapping[str, Any]) -> LoadedEngine:
    """Load weights and build the engine.

    Args:
        flags: :class:`~autotune.ddtree.flags.ServerFlags` as a mapping.

    Raises:
        torch.OutOfMemoryError: weights, cache and buffers do not fit ``--mem-fraction-static`` of the free memory.
        UserError: the weights cannot be read.
        ValueError: the device is not here.
    """
    if flags["device"] == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda needs a GPU that this torch can use; none was found.")
    # cuDNN plans every new shape for tens of milliseconds, and nearly every shape here is new.
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    threads = flags["cpu_threads"] or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    options = make_options(flags)
    dtype = getattr(torch, options.dtype)
    logger.info("Load weight begin.")
    target = load_target(Path(flags["model_path"]))
    drafter = None if options.budget is None else load_drafter(Path(flags["speculative_draft_model_path"]))
    need = estimate_memory(target.config, options, _count_bytes(target, drafter, dtype.itemsize))
    spare = check_memory(need, options.device, flags["mem_fraction_static"])
    target = target.to(options.device, dtype)
    drafter = None if drafter is None else drafter.to(options.device, dtype)
    weight_gib = need.weights / GIB
    logger.info("Load weight end. type=%s, dtype=%s, mem usage=%.2f GB.", type(target).__name__, dtype, weight_gib)
    engine = Engine(target, drafter, options, END)
    capacity = engine.stats().cache_capacity
    logger.info("KV cache may grow to #tokens: %d, KV size: %.2f GB.", capacity, need.cache / GIB)
    if options.budget is not None:
        logger.info(
            "Initialized DDTree worker. block_size=%d, tree_budget=%d, max_tree_nodes=%d",
            options.block,
            options.budget,
            options.budget + 1,
        )
    logger.info(
        "max_total_num_tokens=%d, max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
        capacity,
        options.max_running_requests,
        options.context_length,
        spare / GIB,
    )
    info = {
        "context_length": options.context_length,
        "eos_token_id": END,
        "vocabulary": target.config.vocabulary,
        "max_total_tokens": capacity,
        "weight_gib": weight_gib,
        "cache_gib": need.cache / GIB,
        "threads": threads,
    }
    return LoadedEngine(engine, info)


def make_options(flags: Mapping[str, Any]) -> EngineOptions:
    """Return the engine's options for the server's flags."""
    speculation: dict[str, Any] = {}
    if flags["speculative_algorithm"] is not None:
        speculation = {
            "budget": flags["speculative_ddtree_budget"],
            "topk": flags["topk"],
            "block": flags["speculative_num_draft_tokens"],
            "window": flags["speculative_draft_window_size"],
        }
    return EngineOptions(
        device=flags["device"],
        dtype=flags["dtype"],
        max_running_requests=flags["max_running_requests"],
        context_length=flags["context_length"],
        threshold_single=flags["speculative_accept_threshold_single"],
        threshold_acc=flags["speculative_accept_threshold_acc"],
        clip_width=flags["clip_width"],
        draft_log=flags["draft_log"],
        draft_log_every_token=flags["draft_log_every_token"],
        draft_log_windows=tuple(flags["draft_log_windows"]),
        random_seed=flags["random_seed"],
        **speculation,
    )


def _count_bytes(target: Target, drafter: Drafter | None, item_bytes: int) -> int:
    """Bytes of all parameters in the number format they will have."""
    modules: list[nn.Module] = [target] if drafter is None else [target, drafter]
    return sum(parameter.numel() for module in modules for parameter in module.parameters()) * item_bytes
