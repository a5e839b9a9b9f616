"""Which configurations exist, which of them are the same on this server, and how does one reach the server?"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from autotune.errors import SearchSpaceError
from autotune.expression import WORDS, Expression, parse_expression
from autotune.search_space_file import (
    NONE_WORD,
    ChoiceParameter,
    DerivedValue,
    IntParameter,
    SearchSpaceFile,
    load_search_space_file,
    read_none,
)
from autotune.settings import StudySettings
from autotune.trial import Configuration, ParameterValue

MAX_POINTS: Final = 200_000
"""Largest product of the domains: beyond it enumerating takes longer than a boot."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a configuration reaches the server.

    Attributes:
        arguments: flags to append to the server's command.
        environment: variables to set; ``None`` removes an inherited one.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Equivalence:
    """One merge that this server proves."""

    when: Expression
    assignments: tuple[tuple[str, Expression], ...]


class SearchSpace:
    """Parameters with their domains, rules and equivalences.

    Args:
        file: the checked file.
        proofs: properties that the server is known to have; equivalences with another ``proven_by`` are left out.

    Raises:
        SearchSpaceError: an expression is wrong or speaks of an unknown name, the parts do not fit together, or the space
            is empty or too large.
    """

    def __init__(self, file: SearchSpaceFile, proofs: frozenset[str] = frozenset()) -> None:
        self.name: Final = file.name
        self.summary: Final = file.summary
        self.proofs: Final = proofs
        self.parameters: Final[Mapping[str, IntParameter | ChoiceParameter]] = file.parameters
        self._derived = {name: (item, self._parse(str(item.value))) for name, item in file.derived.items()}
        self._rules = tuple((self._parse(rule.require), rule.because) for rule in file.rules)
        self._arms = tuple((arm.name, self._parse(arm.when)) for arm in file.arms)
        self._equivalences = tuple(
            _Equivalence(
                self._parse(item.when),
                tuple((name, self._parse(str(value))) for name, value in item.set.items()),
            )
            for item in file.equivalences
            if item.proven_by in proofs
        )
        self._check(file)

    def _parse(self, text: str) -> Expression:
        try:
            return parse_expression(text)
        except SearchSpaceError as error:
            raise SearchSpaceError(error.message, hint=error.hint, where=f"search space {self.name}") from error

    def _check(self, file: SearchSpaceFile) -> None:
        """Refuse a file whose parts do not fit together."""
        where = f"search space {self.name}"
        known = {*self.parameters, *self._derived}
        if twice := set(self.parameters) & set(self._derived) | known & set(WORDS):
            raise SearchSpaceError(f"{min(twice)} is taken twice", where=where, hint="rename one of the two")
        expressions = [
            *(expression for _, expression in self._derived.values()),
            *(rule for rule, _ in self._rules),
            *(when for _, when in self._arms),
            *(part for item in self._equivalences for part in (item.when, *(e for _, e in item.assignments))),
        ]
        for expression in expressions:
            if unknown := sorted(expression.names - known):
                raise SearchSpaceError(
                    f"{expression.text!r} speaks of {unknown[0]!r}", where=where, hint=f"known: {', '.join(known)}"
                )
        for name, item in (*file.parameters.items(), *file.derived.items()):
            if item.needs is not None and item.needs not in self.parameters:
                raise SearchSpaceError(f"{name} needs {item.needs!r}, no parameter", where=where)
        self._check_order(where)
        self._check_deliveries(where)
        for equivalence in self._equivalences:
            for name, _ in equivalence.assignments:
                if name not in self.parameters:
                    raise SearchSpaceError(f"an equivalence sets {name!r}, no parameter", where=where)
        points = 1
        for parameter in self.parameters.values():
            points *= parameter.size
        if points > MAX_POINTS:
            raise SearchSpaceError(
                f"has {points} points, more than {MAX_POINTS}", where=where, hint="raise a step or narrow a bound"
            )
        if not self.configurations:
            raise SearchSpaceError(
                "the rules leave no configuration", where=where, hint="two rules contradict each other"
            )

    def _check_order(self, where: str) -> None:
        """Refuse derived values that are not known in time, and needs that go round in a circle."""
        known = set(self.parameters)
        for name, (_, expression) in self._derived.items():
            if late := sorted(expression.names - known):
                raise SearchSpaceError(
                    f"the derived value {name} speaks of {late[0]}, which is not known before it",
                    where=where,
                    hint="a derived value may use the parameters and the derived values above it",
                )
            known.add(name)
        for name in self.parameters:
            chain = [name]
            while (needed := self.parameters[chain[-1]].needs) is not None:
                if needed in chain:
                    raise SearchSpaceError(f"{' needs '.join([*chain, needed])}: a circle", where=where)
                chain.append(needed)

    def _check_deliveries(self, where: str) -> None:
        """Refuse two values that reach the server by the same flag or variable."""
        owners: dict[str, str] = {}
        for name, item in (*self.parameters.items(), *((name, item) for name, (item, _) in self._derived.items())):
            for way in (item.flag or item.environment or "", *item.also_spelled):
                if way in owners:
                    raise SearchSpaceError(f"{owners[way]} and {name} both write {way}", where=where)
                owners[way] = name

    @property
    def derived(self) -> Mapping[str, DerivedValue]:
        """The values that follow from the others, in the order of the file."""
        return {name: item for name, (item, _) in self._derived.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in the order of the file."""
        return tuple(self.parameters)

    def resolve(self, values: Mapping[str, ParameterValue]) -> Configuration:
        """Fill in defaults, turn the word ``none`` into ``None``, check, and return the canonical form.

        Raises:
            SearchSpaceError: an unknown parameter, a value outside its domain, or a rule that is not met.
        """
        for name in values:
            self._known(name)
        configuration = {
            name: (read_none(values[name]) if name in values else parameter.default)
            for name, parameter in self.parameters.items()
        }
        return self.canonicalise(configuration)  # type: ignore[arg-type]  # read_none keeps the kinds of value

    def parse(self, text: str) -> Configuration:
        """Read ``budget=16,topk=4,window=none`` and resolve it.

        Raises:
            SearchSpaceError: not of this form, or as :meth:`resolve`.
        """
        values: dict[str, ParameterValue] = {}
        for item in text.split(","):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not (name and equals and value):
                raise SearchSpaceError(
                    f"{item.strip()!r} is not NAME=VALUE", where=text, hint=f"for example {self.key(self.resolve({}))}"
                )
            if name in values:
                raise SearchSpaceError(f"{name} is given twice", where=text, hint="give each parameter once")
            self._known(name)
            values[name] = _read_value(value)
        return self.resolve(values)

    def canonicalise(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of all configurations that are the same on this server.

        Equal flags are the same everywhere; further equivalences only where the server proves them.

        Raises:
            SearchSpaceError: as :meth:`validate`.
        """
        self.validate(configuration)
        values = self._merge(configuration)
        if values != configuration:
            self.validate(values)
        return values

    def _merge(self, configuration: Configuration) -> dict[str, ParameterValue]:
        """Apply what does not reach the server and the equivalences until nothing changes."""
        values = {name: configuration[name] for name in self.parameters}
        for _ in range(len(self._equivalences) + len(values) + 1):
            before = dict(values)
            for name, parameter in self.parameters.items():
                if not self._is_needed(parameter, values):
                    values[name] = parameter.default
            for equivalence in self._equivalences:
                known = self._with_derived(values)
                if equivalence.when.holds(known):
                    values |= {name: value.evaluate(known) for name, value in equivalence.assignments}
            if values == before:
                return values
        raise SearchSpaceError(
            f"the equivalences of {self.key(configuration)} never come to rest",
            where=f"search space {self.name}",
            hint="two equivalences undo each other",
        )

    def validate(self, configuration: Configuration) -> None:
        """Refuse a configuration outside the space; the message names the rule.

        Raises:
            SearchSpaceError: a parameter is missing or unknown, a value is outside its domain, or a rule is not met.
        """
        for name in configuration:
            self._known(name)
        for name, parameter in self.parameters.items():
            if name not in configuration:
                raise SearchSpaceError(f"{name} is missing", hint=f"parameters: {', '.join(self.names)}")
            value = configuration[name]
            if isinstance(value, str) and value not in parameter.domain and _read_value(value) in parameter.domain:
                raise SearchSpaceError(
                    f'{name}="{value}" is a text, not the number {value}',
                    hint=f"write {name} = {value}, without quotes",
                )
            if isinstance(parameter, IntParameter) and isinstance(value, (bool, float, str)):
                raise SearchSpaceError(f"{name}={_spell(value)} is not a whole number", hint=_domain_text(parameter))
            if isinstance(value, (bool, float)) or value not in parameter.domain:
                raise SearchSpaceError(
                    f"{name}={_spell(value)} is outside the search space {self.name}", hint=_domain_text(parameter)
                )
        known = self._with_derived(configuration)
        for rule, because in self._rules:
            if not rule.holds(known):
                given = ", ".join(f"{name}={_spell(known[name])}" for name in sorted(rule.names))
                raise SearchSpaceError(
                    f"{self.key(configuration)} breaks the rule {rule.text!r} ({given})", hint=because
                )

    @cached_property
    def tuned_flags(self) -> Mapping[str, bool]:
        """Every flag that some configuration sets, in all its spellings, and whether it has a value of its own word."""
        flags: dict[str, bool] = {}
        for configuration in self.configurations:
            for word, following in itertools.pairwise([*self.render_flags(configuration).arguments, "--"]):
                if word.startswith("--"):
                    flags[word] = flags.get(word, False) or not following.startswith("--")
        for item in (*self.parameters.values(), *(item for item, _ in self._derived.values())):
            flags |= dict.fromkeys(item.also_spelled, True)
        return flags

    def render_flags(self, configuration: Configuration) -> Rendering:
        """Return flags and variables for a configuration; of a parameter that is omitted, nothing is left over."""
        arguments: list[str] = []
        environment: dict[str, str | None] = {}
        for item, value in self._delivered(configuration):
            if item.environment is not None:
                environment[item.environment] = None if value is None else _spell(value)
            elif value is not None and item.flag is not None:
                arguments += [*item.flags_beside, item.flag, _spell(value)]
        return Rendering(tuple(arguments), environment)

    def reported(self, configuration: Configuration) -> Mapping[str, ParameterValue]:
        """Return what the server must report of this configuration: name in ``/server_info`` -> value.

        ``None`` means that the server must report nothing, or null.
        """
        expected: dict[str, ParameterValue] = {}
        for item, value in self._delivered(configuration):
            # A variable that is not needed may stand in a unit and means nothing there.
            if item.reported_as is not None and (item.environment is None or self._is_needed(item, configuration)):
                expected[item.reported_as] = value
            expected |= {name: (None if value is None else beside) for name, beside in item.reported_beside.items()}
        return expected

    def _delivered(
        self, configuration: Configuration
    ) -> Iterable[tuple[IntParameter | ChoiceParameter | DerivedValue, ParameterValue]]:
        """Every parameter and derived value with the value that is written; ``None`` when nothing is."""
        known = self._with_derived(configuration)
        for name, parameter in self.parameters.items():
            yield parameter, known[name] if self._is_written(name, configuration) else None
        for name, (derived, _) in self._derived.items():
            yield derived, known[name] if self._is_needed(derived, configuration) else None

    def _is_needed(self, item: IntParameter | ChoiceParameter | DerivedValue, values: Configuration) -> bool:
        return item.needs is None or self._is_written(item.needs, values)

    def _is_written(self, name: str, values: Configuration) -> bool:
        parameter = self.parameters[name]
        return not parameter.is_omitted(values[name]) and self._is_needed(parameter, values)

    def _with_derived(self, configuration: Configuration) -> Mapping[str, ParameterValue]:
        values = dict(configuration)
        for name, (_, expression) in self._derived.items():
            values[name] = expression.evaluate(values)
        return values

    def arm(self, configuration: Configuration) -> str | None:
        """Return the name of the first arm that the configuration belongs to; ``None`` when it belongs to none."""
        known = self._with_derived(configuration)
        return next((name for name, when in self._arms if when.holds(known)), None)

    def describe(self, configuration: Configuration) -> str:
        """Render ``budget=16 topk=4 window=none`` for people; parameters that do not reach the server are left out."""
        return " ".join(
            f"{name}={_spell(configuration[name])}"
            for name, parameter in self.parameters.items()
            if self._is_needed(parameter, configuration)
        )

    def key(self, configuration: Configuration) -> str:
        """Return a stable string, equal exactly for equal canonical forms; :meth:`parse` reads it back."""
        return ",".join(f"{name}={_spell(configuration[name])}" for name in self.parameters)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """All canonical configurations that meet the rules, each once, in a fixed order."""
        found: dict[str, Configuration] = {}
        for values in itertools.product(*(parameter.domain for parameter in self.parameters.values())):
            configuration = dict(zip(self.parameters, values, strict=True))
            known = self._with_derived(configuration)
            if all(rule.holds(known) for rule, _ in self._rules):
                merged = self._merge(configuration)
                key = self.key(merged)
                if key not in found:
                    if merged != configuration:
                        self._check_merged(configuration, merged)
                    found[key] = merged
        return tuple(found.values())

    def _check_merged(self, configuration: Configuration, merged: Configuration) -> None:
        """Refuse an equivalence that leads out of the space."""
        try:
            self.validate(merged)
        except SearchSpaceError as error:
            raise SearchSpaceError(
                f"{self.key(configuration)} becomes {self.key(merged)} by an equivalence or a default, and {error.message}",
                where=f"search space {self.name}",
                hint=error.hint,
            ) from error

    @property
    def size(self) -> int:
        """How many :attr:`configurations` there are."""
        return len(self.configurations)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of what decides the trials of a study: every configuration with the flags it is started with."""
        digest = hashlib.sha256()
        for configuration in self.configurations:
            rendering = self.render_flags(configuration)
            digest.update(repr((self.key(configuration), rendering.arguments, rendering.environment)).encode())
        return digest.hexdigest()[:16]

    def _known(self, name: str) -> None:
        if name not in self.parameters:
            near = difflib.get_close_matches(name, self.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"parameters: {', '.join(self.names)}"
            raise SearchSpaceError(f"the search space {self.name} has no parameter {name!r}", hint=hint)


def load_search_space(name: str, *, proofs: frozenset[str] = frozenset()) -> SearchSpace:
    """Read a search space by the name of a packaged one or by path.

    Raises:
        SearchSpaceError: it cannot be read or is wrong.
    """
    return SearchSpace(load_search_space_file(name), proofs)


def search_space_of(settings: StudySettings) -> SearchSpace:
    """Return the search space that a study names, with the equivalences that its server proves.

    Raises:
        SearchSpaceError: it cannot be read or is wrong.
    """
    proofs = frozenset(settings.server.proofs)
    if isinstance(settings.search_space, str):
        return load_search_space(settings.search_space, proofs=proofs)
    return _space_of_table(settings.search_space.model_dump_json(), proofs)


@lru_cache(maxsize=16)
def _space_of_table(text: str, proofs: frozenset[str]) -> SearchSpace:
    """Return the space of a table, given as JSON; the same one again, because enumerating it takes a second."""
    return SearchSpace(SearchSpaceFile.model_validate_json(text), proofs)


def _spell(value: ParameterValue) -> str:
    return NONE_WORD if value is None else str(value)


def _read_value(text: str) -> ParameterValue:
    """Read a whole number where it is one in plain digits, else keep the word."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else text


def _domain_text(parameter: IntParameter | ChoiceParameter) -> str:
    if isinstance(parameter, IntParameter):
        step = f" in steps of {parameter.step}" if parameter.step != 1 else ""
        return f"{parameter.low} to {parameter.high}{step}"
    return f"one of {', '.join(_spell(value) for value in parameter.choices)}"
