"""How large is the model in a weights directory? Read from the files' headers, without torch."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TARGET_FILE: Final = "target.safetensors"
DRAFTER_FILE: Final = "drafter.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
_HEADER_LIMIT: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """What the flags must fit.

    Attributes:
        max_positions: longest sequence.
        vocabulary: number of tokens.
        max_block: largest block the drafter was trained for; ``None`` without a drafter.
    """

    max_positions: int
    vocabulary: int
    max_block: int | None


def packaged_weights() -> Path:
    """Return the directory of the weights that come with this package."""
    return Path(__file__).with_name("weights")


def read_sizes(model_path: str, draft_model_path: str | None) -> ModelSizes:
    """Read the sizes of a target and, where one is used, of its drafter.

    Raises:
        ValueError: a file is missing or no safetensors file of this model.
    """
    target_directory = Path(model_path)
    target = _read_config(target_directory / TARGET_FILE)
    if not (target_directory / TOKENIZER_FILE).is_file():
        raise ValueError(f"{target_directory / TOKENIZER_FILE} does not exist: --model-path needs a tokenizer.")
    drafter = None if draft_model_path is None else _read_config(Path(draft_model_path) / DRAFTER_FILE)
    try:
        return ModelSizes(
            max_positions=int(target["max_positions"]),
            vocabulary=int(target["vocabulary"]),
            max_block=None if drafter is None else int(drafter["max_block"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{target_directory} holds weights of another kind of model: {error}.") from error


def _read_config(path: Path) -> dict[str, Any]:
    """Return the sizes stored in the header of a safetensors file."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, _HEADER_LIMIT)))
        config: dict[str, Any] = json.loads(header["__metadata__"]["config"])
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a weights file of this model: {error}.") from error
    return config
