"""Which configuration do a command line and its variables spell? The way back from flags to values; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.search_space import SearchSpace
from autotune.search_space_file import ChoiceParameter, DerivedValue, IntParameter
from autotune.trial import ParameterValue


@dataclass(frozen=True, slots=True)
class FoundConfiguration:
    """What was read back.

    Attributes:
        values: parameter -> value, outside its domain too; a parameter that nothing tells is left out.
        derived: the same for values that are stated but never tuned, where they are written or reported.
        unknown: parameters that matter and that neither the command nor the server tells.
        outside: parameters whose value the search space does not have.
        contradictions: one sentence for each value that the server reports otherwise than it is written.
    """

    values: Mapping[str, ParameterValue]
    derived: Mapping[str, ParameterValue]
    unknown: tuple[str, ...]
    outside: tuple[str, ...]
    contradictions: tuple[str, ...]


def read_configuration(
    space: SearchSpace,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    reported: Mapping[str, ParameterValue] | None = None,
) -> FoundConfiguration:
    """Map flags and variables back through a search space.

    What is written counts; where nothing is, what the server reports, then what the space says that it takes unset. A
    parameter that needs one which is switched off has its default: it is not looked at.

    Args:
        space: how values reach the server.
        arguments: the server's command, flags as ``--flag value`` or ``--flag=value``; of two the last one counts.
        environment: its variables.
        reported: the effective flags by the server's names; ``None`` when it does not answer.
    """
    told = _Source(tuple(arguments), environment, reported or {})
    values: dict[str, ParameterValue] = {}
    contradictions: list[str] = []
    unknown: list[str] = []
    pending = dict(space.parameters)
    while pending:
        for name, parameter in tuple(pending.items()):
            if parameter.needs in pending:
                continue
            del pending[name]
            if parameter.needs is not None and _is_off(space, parameter.needs, values):
                values[name] = parameter.default
                continue
            found, sentence = told.find(name, parameter)
            if isinstance(found, _Unknown):
                unknown.append(name)
            else:
                values[name] = found
            contradictions += sentence
    derived: dict[str, ParameterValue] = {}
    for name, item in space.derived.items():
        if item.needs is None or not _is_off(space, item.needs, values):
            found, sentence = told.find(name, item)
            if not isinstance(found, _Unknown):
                derived[name] = found
            contradictions += sentence
    ordered = {name: values[name] for name in space.parameters if name in values}
    outside = tuple(
        name
        for name, value in ordered.items()
        if isinstance(value, (bool, float)) or value not in space.parameters[name].domain
    )
    return FoundConfiguration(ordered, derived, tuple(unknown), outside, tuple(contradictions))


def find_flag(arguments: Sequence[str], *flags: str) -> str | None:
    """Return the last value of a flag in any of its spellings, ``""`` for one without a value; ``None`` without it.

    >>> find_flag(["x", "--port", "1", "--port=2", "--fast"], "--port"), find_flag(["--fast", "--port"], "--fast")
    ('2', '')
    """
    value: str | None = None
    for index, word in enumerate(arguments):
        name, equals, rest = word.partition("=")
        if name in flags:
            following = arguments[index + 1] if index + 1 < len(arguments) else "--"
            value = rest if equals else "" if following.startswith("--") else following
    return value


class _Unknown:
    """Nobody tells."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where values are looked for."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    reported: Mapping[str, ParameterValue]

    def find(
        self, name: str, item: IntParameter | ChoiceParameter | DerivedValue
    ) -> tuple[ParameterValue | _Unknown, list[str]]:
        """Return the value, and a sentence when the server reports another one."""
        text = self._written(item)
        says = item.reported_as is not None and item.reported_as in self.reported
        report = self.reported[item.reported_as] if says and item.reported_as is not None else None
        if text is None:
            return (report if report is not None else self._unwritten(item, says=says)), []
        value = _read_value(text)
        if says and report is not None and report != value:
            return value, [f"{name} is written as {value}, and the server reports {report}"]
        return value, []

    def _written(self, item: IntParameter | ChoiceParameter | DerivedValue) -> str | None:
        if item.environment is not None:
            return self.environment.get(item.environment)
        pairs = zip(item.flags_beside[::2], item.flags_beside[1::2], strict=False)
        if any(find_flag(self.arguments, flag) != value for flag, value in pairs if flag.startswith("--")):
            return None
        return find_flag(self.arguments, item.flag or "", *item.also_spelled)

    def _unwritten(
        self, item: IntParameter | ChoiceParameter | DerivedValue, *, says: bool
    ) -> ParameterValue | _Unknown:
        """What holds when nothing is written and the server reports nothing else."""
        if isinstance(item, DerivedValue):
            return _Unknown()
        beside = item.flags_beside
        is_asked_for = len(beside) > 1 and find_flag(self.arguments, beside[0]) == beside[1]
        is_omitted = item.omit is not None if isinstance(item, IntParameter) else item.omit is not False
        if is_omitted and (says or not is_asked_for):
            return None if item.omit is False else item.omit
        return _Unknown() if item.unset is False else item.unset


def _is_off(space: SearchSpace, name: str, values: Mapping[str, ParameterValue]) -> bool:
    """Whether a parameter is not written, so that what needs it means nothing."""
    parameter = space.parameters[name]
    if name not in values:
        return False
    return parameter.is_omitted(values[name]) or (
        parameter.needs is not None and _is_off(space, parameter.needs, values)
    )


def _read_value(text: str) -> ParameterValue:
    """Read the text of a flag as the number it is, whole where it is whole, else keep the word."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
