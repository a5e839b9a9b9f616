"""The studies that are run against a test host: as small as a night can be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import PORT, UNIT
from tests.host.tuner_process import Place

NAME: Final = "night"
TRIES: Final = ({"budget": 0}, {"budget": 8, "topk": 4})
"""What is booted beside the baseline (budget 16, topk 4): plain decoding first."""


def render_study(
    lab: Lab,
    host: Container,
    place: Place,
    *,
    tries: tuple[Mapping[str, int], ...] = TRIES,
    deployment: Mapping[str, object] | None = None,
    server: Mapping[str, object] | None = None,
    evaluation: bool = False,
    output_tokens: int = 32,
    profile: bool = False,
) -> str:
    """Return a study file.

    Args:
        lab: has the ssh configuration.
        host: what is tuned.
        place: where the tuner will run.
        tries: configurations to boot.
        deployment: keys of ``[deployment]`` to add or to replace.
        server: keys of ``[server]`` to add or to replace.
        evaluation: whether coding problems are asked.
        output_tokens: of each answer.
        profile: whether drafts are to be logged.
    """
    deployed: dict[str, object] = {"kind": "systemd", "unit": UNIT, "lease_s": 30.0, "gpu_idle_mb": 1000}
    if place is not Place.ON_HOST:
        alias = host.alias("root" if place is Place.ROOT else "ubuntu")
        deployed |= {"host": alias, "ssh_config": str(lab.ssh_config(host)), "data_path": "tunnel"}
    served: dict[str, object] = {
        "port": PORT,
        "ready_timeout_s": 30.0,
        "stall_timeout_s": 15.0,
        "stop_timeout_s": 20.0,
        "proofs": ["best-first-tree"],
    }
    cells = [
        "[[benchmark.stages]]",
        'name = "busy"',
        "cells = [{ context = 64, concurrency = 32 }]",
        "[[benchmark.stages]]",
        'name = "single"',
        "cells = [{ context = 64, concurrency = 1 }]",
    ]
    lines = [
        f'name = "{NAME}"',
        'search_space = "ddtree"',
        "[deployment]",
        *_render_keys({**deployed, **(deployment or {})}),
        "[server]",
        *_render_keys({**served, **(server or {})}),
        "[baseline]",
        *_render_keys({"budget": 16, "topk": 4, "window": "none"}),
        *(line for values in tries for line in ("[[try]]", *_render_keys(values))),
        "[benchmark]",
        *_render_keys({"output_tokens": output_tokens, "repeats": 1, "warmup_requests": 1}),
        *cells,
        *(["[profile]", "enabled = true"] if profile else []),
        "[pruning]",
        "enabled = false",
        "[objectives]",
        "max_context_loss = 1.0",  # a busy machine makes no verdict
        "[confirmation]",
        "boots = 0",  # a night as short as it can be
        "[evaluation]",
        *_render_keys({"enabled": evaluation, "problems": 4, "max_tokens": 48}),
    ]
    return "\n".join(lines) + "\n"


def write_study(folder: Path, text: str, host: Container | None = None) -> Path:
    """Put a study file into a folder, of the host if the tuner runs there; return its path."""
    path = folder / f"{NAME}.toml"
    if host is not None:
        host.put(str(path), text)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


def _render_keys(values: Mapping[str, object]) -> list[str]:
    return [f"{name} = {_render_value(value)}" for name, value in values.items()]


def _render_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_render_value(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
