"""Services as they would be found, for tests of what is written about them."""

from __future__ import annotations

from typing import Any

from autotune.initial_study.facts import Facts, Gpu, SourceFacts
from autotune.settings import DeploymentSettings

SGLANG_FLAGS = (
    *("--model-path", "--host", "--port", "--page-size", "--attention-backend", "--max-running-requests"),
    *("--cuda-graph-max-bs", "--enable-metrics", "--speculative-algorithm", "--speculative-draft-model-path"),
    *("--speculative-num-draft-tokens", "--speculative-dflash-block-size", "--speculative-draft-window-size"),
    *("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc"),
)
DDTREE = (
    "--speculative-algorithm",
    "DDTREE",
    "--speculative-ddtree-budget",
    "16",
    "--speculative-num-draft-tokens",
    "8",
)
TRITON = ("--page-size", "1", "--attention-backend", "triton")
DRAFT = ("--speculative-draft-model-path", "/models/Kimi-K2.6-DFlash")
PULL_REQUEST = SourceFacts(
    "0.5.15",
    frozenset({"SGLANG_DDTREE_MAX_TOPK", "SGLANG_DDTREE_DEPTH_BONUS"}),
    frozenset({"clipped-width", "chain-within-block"}),
)

HERE = DeploymentSettings(kind="systemd", unit="sglang-ddtree.service")


def names(*flags: str) -> frozenset[str]:
    return frozenset(flag.removeprefix("--").replace("-", "_") for flag in flags)


def make_facts(*flags: str, takes: tuple[str, ...] = ("--speculative-ddtree-budget",), **changes: Any) -> Facts:
    """Kimi with DDTree on eight GPUs, started with these flags beside the ones that every server has."""
    command = ("/opt/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/Kimi-K2.6", *flags)
    known: dict[str, Any] = {
        "unit": "sglang-ddtree.service",
        "files": ("/etc/systemd/system/sglang-ddtree.service",),
        "launch_kind": "direct",
        "active_state": "active",
        "restart": "always",
        "timeout_start_s": None,
        "timeout_stop_s": 90.0,
        "command": command,
        "environment": {"SGLANG_DDTREE_MAX_TOPK": "4"},
        "address": "0.0.0.0",
        "port": 30000,
        "supported": names(*SGLANG_FLAGS, *takes),
        "supported_by": "--help",
        "source": PULL_REQUEST,
        "gpus": (Gpu("RTX PRO 6000", 97887),) * 8,
        "load_s": 615.0,
    }
    return Facts(**{**known, **changes})
