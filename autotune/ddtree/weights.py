"""Where the embedded model's files are, and how they are read and written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn

from autotune.ddtree.model import Drafter, ModelConfig, Target
from autotune.errors import UserError

ModuleT = TypeVar("ModuleT", bound=nn.Module)

TARGET_FILE = "target.safetensors"
DRAFTER_FILE = "drafter.safetensors"
TOKENIZER_FILE = "tokenizer.json"
RECORD_FILE = "training.json"


def default_weights_directory() -> Path:
    """The directory of the weights that come with this package."""
    return Path(__file__).parent / "weights"


def save_module(path: Path, module: nn.Module, config: ModelConfig) -> None:
    """Write parameters as bfloat16 with the sizes of the model beside them."""
    tensors = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in module.state_dict().items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(path), metadata={"config": json.dumps(dataclasses.asdict(config), sort_keys=True)})


def save_target(directory: Path, target: Target) -> None:
    """Write a target into ``directory``."""
    save_module(directory / TARGET_FILE, target, target.config)


def save_drafter(directory: Path, drafter: Drafter) -> None:
    """Write a drafter into ``directory``."""
    save_module(directory / DRAFTER_FILE, drafter, drafter.config)


def _read(path: Path) -> tuple[ModelConfig, dict[str, torch.Tensor]]:
    """Read sizes and float32 parameters.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    if not path.is_file():
        raise UserError(
            "there are no weights here",
            where=str(path),
            hint="name a directory with weights, or make them with python -m autotune.ddtree.train",
        )
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        fields: dict[str, Any] = json.loads(metadata["config"])
        config = ModelConfig(**{**fields, "tapped_layers": tuple(fields["tapped_layers"])})
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise UserError(
            f"these weights cannot be read: {error}",
            where=str(path),
            hint="make them anew with python -m autotune.ddtree.train",
        ) from error
    return config, tensors


def load_target(directory: Path) -> Target:
    """Read the target, float32 on the CPU, ready for inference.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    config, tensors = _read(directory / TARGET_FILE)
    target = Target(config)
    return _fill(target, tensors, directory / TARGET_FILE)


def load_drafter(directory: Path) -> Drafter:
    """Read the drafter, float32 on the CPU, ready for inference.

    Raises:
        UserError: the file is missing, damaged or of another model.
    """
    config, tensors = _read(directory / DRAFTER_FILE)
    drafter = Drafter(config)
    return _fill(drafter, tensors, directory / DRAFTER_FILE)


def _fill(module: ModuleT, tensors: dict[str, torch.Tensor], path: Path) -> ModuleT:
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise UserError(
            "these weights do not fit the sizes stored beside them",
            where=str(path),
            hint="make them anew with python -m autotune.ddtree.train",
        ) from error
    return module.eval().requires_grad_(requires_grad=False)


def load_tokenizer(directory: Path) -> Tokenizer:
    """Read the tokenizer.

    Raises:
        UserError: the file is missing.
    """
    path = directory / TOKENIZER_FILE
    if not path.is_file():
        raise UserError("there is no tokenizer here", where=str(path), hint="name a directory with weights")
    return Tokenizer.from_file(str(path))
