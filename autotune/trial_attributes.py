"""How does a trial record become plain JSON attributes, and back? One attribute for each thing that is stored at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from autotune.trial import (
    BootCondition,
    BootRecord,
    CellMeasurement,
    Configuration,
    ConfirmationBoot,
    EvaluationMeasurement,
    Objectives,
    TrialKind,
    TrialRecord,
    TrialState,
)

CELL_PREFIX: Final = "cell:"
"""``cell:0003`` is the fourth cell that ended."""

EXTRA_PREFIX: Final = "extra:"
"""Whatever else is stored with a trial."""


def cell_key(index: int) -> str:
    """Return the attribute of the cell that ended as number ``index``, from 0."""
    return f"{CELL_PREFIX}{index:04d}"


def dump_record(
    value: BootRecord | BootCondition | CellMeasurement | ConfirmationBoot | EvaluationMeasurement | Objectives,
) -> Any:
    """Return a record as JSON values; figures must have been checked to be finite."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def load_trial(number: int, attributes: Mapping[str, Any]) -> TrialRecord:
    """Rebuild one trial from its attributes.

    Raises:
        KeyError: an attribute that every trial has is missing.
        pydantic.ValidationError: an attribute was not written by :func:`dump_record`.
    """
    cells = sorted((key, value) for key, value in attributes.items() if key.startswith(CELL_PREFIX))
    objectives = _load(Objectives, attributes.get("objectives"))
    return TrialRecord(
        number=number,
        kind=TrialKind(attributes["kind"]),
        state=TrialState(attributes["state"]),
        configuration=_configuration(attributes["configuration"]),
        reason=attributes.get("reason"),
        cells=tuple(_adapter(CellMeasurement).validate_python(value) for _, value in cells),
        evaluation=_load(EvaluationMeasurement, attributes.get("evaluation")),
        objectives=Objectives(None, None, None) if objectives is None else objectives,
        boot=_load(BootRecord, attributes.get("boot")),
        condition=_load(BootCondition, attributes.get("condition")),
        started_at=attributes.get("started_at"),
        ended_at=attributes.get("ended_at"),
        duration_s=attributes.get("duration_s"),
        attributes={
            key.removeprefix(EXTRA_PREFIX): value for key, value in attributes.items() if key.startswith(EXTRA_PREFIX)
        },
        confirmation=_load(ConfirmationBoot, attributes.get("confirmation")),
    )


def _configuration(pairs: list[list[Any]]) -> Configuration:
    """Rebuild a configuration from a list of pairs, which unlike an object keeps its order everywhere."""
    return {str(name): value for name, value in pairs}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _load(kind: Any, value: Any) -> Any:
    return None if value is None else _adapter(kind).validate_python(value)
