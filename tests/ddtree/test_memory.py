from __future__ import annotations

import pytest
import torch

from autotune.ddtree import memory
from autotune.ddtree.memory import GIB, MemoryNeed, check_memory, estimate_memory, free_memory
from autotune.ddtree.model import ModelConfig
from autotune.ddtree.request import EngineOptions

CONFIG = ModelConfig(vocabulary=1000, width=64, layers=4, heads=2, max_positions=2048)


def test_the_cache_holds_two_vectors_per_layer_and_position() -> None:
    need = estimate_memory(CONFIG, EngineOptions(max_running_requests=10, context_length=99), 7)

    assert need.weights == 7
    assert need.cache == 10 * 100 * 4 * 2 * 64 * 4


def test_a_larger_budget_needs_more_and_bfloat16_less() -> None:
    def total(**options) -> int:
        return estimate_memory(CONFIG, EngineOptions(**options), 0).total

    assert total() < total(budget=8) < total(budget=512)
    assert total(budget=8, dtype="bfloat16") < total(budget=8)


def test_what_does_not_fit_is_refused_with_what_to_lower(monkeypatch) -> None:
    """case 8"""
    monkeypatch.setattr(memory, "free_memory", lambda: 10 * GIB)

    assert check_memory(MemoryNeed(GIB, GIB, GIB), "cpu", 0.5) == 2 * GIB
    with pytest.raises(
        torch.OutOfMemoryError, match=r"CPU out of memory\. Tried to allocate 3\.00 GiB .* Lower --max-running"
    ):
        check_memory(MemoryNeed(GIB, GIB, GIB), "cpu", 0.25)


def test_free_memory_is_the_least_of_all_limits(monkeypatch, tmp_path) -> None:
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)

    assert free_memory() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 1_000_000
