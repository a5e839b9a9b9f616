"""What are the configurations of a search space in numbers, and which of them are plain decoding, chains or trees?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autotune.search_space import SearchSpace
from autotune.search_space_file import ChoiceParameter, IntParameter
from autotune.trial import Configuration, ParameterValue

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

BUDGET: Final = "budget"
TOPK: Final = "topk"
BLOCK: Final = "block"
"""Parameters whose meaning is known, by their names in the glossary; every other one is just a number or a choice."""

PLAIN_ARM: Final = "plain"

_LOG_FROM: Final = 8
"""A range that reaches this far is spaced by its logarithm: the step from 2 to 4 nodes is as large as that from 32 to 64."""


class Encoding:
    """All canonical configurations of a space, one row each, in the order of the space.

    Args:
        space: the search space.

    Attributes:
        space: the search space.
        x: one column for each number or ordered choice and one for each word of an unordered choice, all from 0 to 1;
            shape (rows, columns).
        sizes: the columns of ``x`` that are numbers or ordered choices; shape (rows, ordered parameters).
        amounts: as ``sizes``, but numbers as they are and not by their logarithm; memory is linear in them.
        words: codes of the unordered values; shape (rows, unordered parameters).
        arm: code of the arm; shape (rows,).
        arm_names: by code; ``None`` for what belongs to no arm.
        is_plain: plain decoding; shape (rows,).
        budget: draft nodes that can be accepted: a chain ends with its block; ``None`` where the space has no budget, or one
            of its values is below 0 and so no number of nodes.
        block: tokens drafted per step, the committed one included; ``None`` where it is not known, or one of its values is
            below 1 and so no number of tokens.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space: Final = space
        configurations = space.configurations
        self._row = {space.key(configuration): row for row, configuration in enumerate(configurations)}
        columns: list[Vector] = []
        sizes: list[Vector] = []
        amounts: list[Vector] = []
        words: list[Vector] = []
        for name, parameter in space.parameters.items():
            values = [configuration[name] for configuration in configurations]
            if isinstance(parameter, IntParameter):
                sizes += (scaled := _number_columns(parameter, values))
                columns += scaled
                amounts += _scaled(
                    np.array(values, dtype=np.float64) - parameter.low, float(parameter.high - parameter.low)
                )
            elif _is_ordered(parameter):
                position = {value: index for index, value in enumerate(parameter.choices)}
                rank = np.array([position[value] for value in values], dtype=np.float64)  # type: ignore[index]
                sizes += (scaled := _scaled(rank, len(parameter.choices) - 1.0))
                columns += scaled
                amounts += _amount_columns(parameter, values)
            else:
                columns += _word_columns(parameter, values)
                code = {value: index for index, value in enumerate(parameter.choices)}
                words.append(np.array([code[value] for value in values], dtype=np.float64))  # type: ignore[index]
        rows = len(configurations)
        self.x: Final = _stack(columns, rows)
        self.sizes: Final = _stack(sizes, rows)
        self.amounts: Final = _stack(amounts, rows)
        self.words: Final = _stack(words, rows)
        names = [space.arm(configuration) for configuration in configurations]
        self.arm_names: Final = tuple(dict.fromkeys(names))
        self.arm: Final = np.array([self.arm_names.index(name) for name in names], dtype=np.intp)
        self.block: Final = self._find_block(configurations)
        self.budget: Final = self._find_budget(configurations)
        by_name = np.array([name == PLAIN_ARM for name in names], dtype=np.bool_)
        self.is_plain: Final[Flags] = by_name if self.budget is None else by_name | (self.budget == 0)

    def __len__(self) -> int:
        """How many configurations there are."""
        return len(self._row)

    def row(self, configuration: Configuration) -> int | None:
        """Return the row of a configuration; ``None`` when the space no longer has it."""
        return self._row.get(self.space.key(configuration)) if set(configuration) == set(self.space.names) else None

    def _find_block(self, configurations: Sequence[Configuration]) -> Vector | None:
        """Return the block of every configuration: a parameter, or a constant that is stated with every boot."""
        if self._counts(BLOCK, 1):
            return np.array([configuration[BLOCK] for configuration in configurations], dtype=np.float64)
        derived = self.space.derived.get(BLOCK)
        if derived is not None and isinstance(derived.value, int) and derived.value >= 1:
            return np.full(len(configurations), float(derived.value))
        return None

    def _counts(self, name: str, least: int) -> bool:
        """Whether all values of a parameter are whole numbers from ``least`` on; servers use others for off and automatic."""
        parameter = self.space.parameters.get(name)
        if isinstance(parameter, IntParameter):
            return parameter.low >= least
        return parameter is not None and all(isinstance(value, int) and value >= least for value in parameter.choices)

    def _find_budget(self, configurations: Sequence[Configuration]) -> Vector | None:
        if not self._counts(BUDGET, 0):
            return None
        budget = np.array([configuration[BUDGET] for configuration in configurations], dtype=np.float64)
        if self.block is not None and TOPK in self.space.parameters:
            is_chain = np.array([configuration[TOPK] == 1 for configuration in configurations])
            budget = np.where(is_chain, np.minimum(budget, self.block - 1), budget)
        return budget


def _number_columns(parameter: IntParameter, values: Sequence[ParameterValue]) -> list[Vector]:
    numbers = np.array(values, dtype=np.float64) - parameter.low
    if parameter.high - parameter.low < _LOG_FROM or parameter.low < 0:
        return _scaled(numbers, float(parameter.high - parameter.low))
    low, high = math.log1p(parameter.low), math.log1p(parameter.high)
    return _scaled(np.log1p(numbers + parameter.low) - low, high - low)


def _word_columns(parameter: ChoiceParameter, values: Sequence[ParameterValue]) -> list[Vector]:
    """Return one column for two words, else one for each word."""
    words = parameter.choices[1:] if len(parameter.choices) <= 2 else parameter.choices
    return [np.array([float(value == word) for value in values]) for word in words]


def _is_ordered(parameter: ChoiceParameter) -> bool:
    """Whether its values are numbers, and perhaps the value none at one end."""
    return sum(isinstance(value, int) for value in parameter.choices) >= 2 and not any(
        isinstance(value, str) for value in parameter.choices
    )


def _amount_columns(parameter: ChoiceParameter, values: Sequence[ParameterValue]) -> list[Vector]:
    """Return the values of an ordered choice from 0 to 1; none is nothing at its beginning and all at its end."""
    numbers = [choice for choice in parameter.choices if isinstance(choice, int)]
    none = 0 if parameter.choices[0] is None else 2 * max(numbers)
    known = numbers if len(numbers) == len(parameter.choices) else [*numbers, none]
    amounts = np.array([value if isinstance(value, int) else none for value in values], dtype=np.float64)
    return _scaled(amounts - min(known), float(max(known) - min(known)))


def _scaled(values: Vector, width: float) -> list[Vector]:
    return [] if width <= 0 else [values / width]


def _stack(columns: Sequence[Vector], rows: int) -> Matrix:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))
