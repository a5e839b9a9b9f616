"""Which parameters can no cell of this study tell anything about? Pure.

A value that changes nothing in any cell still costs boots, and what its trials show is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autotune.search_space import SearchSpace
from autotune.search_space_file import ChoiceParameter, IntParameter
from autotune.settings import StudySettings

_WINDOWS: Final = ("speculative_draft_window_size", "speculative_dflash_draft_window_size")
_BATCHES: Final = ("max_running_requests", "cuda_graph_max_bs", "cuda_graph_max_bs_decode")
_THRESHOLDS: Final = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def find_unexercised(space: SearchSpace, settings: StudySettings) -> tuple[str, ...]:
    """Return one sentence for each parameter, or part of its domain, that changes nothing in any cell.

    Known of real servers: a window of the drafter acts on prompts longer than it; accept thresholds act on requests that
    are not greedy; a limit of the batch acts when more requests are in flight. Besides, a parameter to which the rules
    leave one value is none.
    """
    sentences = []
    for name, parameter in space.parameters.items():
        sentence = _find_one_value(name, parameter, space) or _find_no_effect(name, parameter, space, settings)
        if sentence is not None:
            sentences.append(sentence)
    return tuple(sentences)


def _find_one_value(name: str, parameter: IntParameter | ChoiceParameter, space: SearchSpace) -> str | None:
    """Say that the rules leave one value, where it means anything."""
    written = {
        configuration[name]
        for configuration in space.configurations
        if parameter.needs is None or not space.parameters[parameter.needs].is_omitted(configuration[parameter.needs])
    }
    if len(written) > 1:
        return None
    value = "no value" if not written else f"the one value {_spell(next(iter(written)))}"
    return f"{name} has {value} in every configuration where it acts, so nothing is searched"


def _find_no_effect(
    name: str, parameter: IntParameter | ChoiceParameter, space: SearchSpace, settings: StudySettings
) -> str | None:
    """Say that values change nothing in the cells there are."""
    cells = [cell for stage in settings.benchmark.stages for cell in stage.cells]
    numbers = sorted({value for each in space.configurations if isinstance(value := each[name], int)})
    if _is_one_of(parameter, _WINDOWS):
        context = max(cell.context for cell in cells)
        idle = [value for value in numbers if value > context]
        return _say_idle(name, numbers, idle, f"no context is longer than {context} tokens")
    if _is_one_of(parameter, _BATCHES):
        concurrency = max(cell.concurrency for cell in cells)
        idle = [value for value in numbers if value > concurrency]
        if len(idle) < 2:
            return None  # one value above the busiest cell is the one that does not limit it
        return _say_idle(name, numbers, idle, f"no cell has more than {concurrency} requests in flight")
    if _is_one_of(parameter, _THRESHOLDS) and settings.benchmark.sampling.temperature == 0:
        return f"{name} acts on requests that are not greedy, and every cell has temperature 0"
    return None


def _say_idle(name: str, numbers: Sequence[int], idle: Sequence[int], why: str) -> str | None:
    if not idle:
        return None
    if len(idle) == len(numbers):
        return f"{name} acts in no cell: {why}"
    return f"{name} of {', '.join(map(str, idle))} acts in no cell: {why}"


def _is_one_of(parameter: IntParameter | ChoiceParameter, names: Sequence[str]) -> bool:
    """Whether a parameter is one that servers report by a known name, or take as the flag of that name."""
    flag = (parameter.flag or "").removeprefix("--").replace("-", "_")
    return parameter.reported_as in names or flag in names


def _spell(value: object) -> str:
    return "none" if value is None else str(value)
