"""How is a family's search space narrowed to one server, and which of its configurations runs there? Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autotune.errors import SearchSpaceError, UserError
from autotune.found_configuration import FoundConfiguration, find_flag, read_configuration
from autotune.initial_study.facts import Facts, identify
from autotune.initial_study.families import EMBEDDED, Choice
from autotune.initial_study.space_text import TABLE, Change, inline_space
from autotune.packaged import find_packaged
from autotune.search_space import SearchSpace
from autotune.search_space_file import (
    NONE_WORD,
    ChoiceParameter,
    IntParameter,
    SearchSpaceFile,
    parse_search_space_file,
)
from autotune.trial import ParameterValue

_START: Final = "start the service, wait until it serves, then run this again: its /server_info tells"


@dataclass(frozen=True, slots=True)
class Fit:
    """A search space that holds what the server does now.

    Attributes:
        text: its tables, as they stand in a study.
        space: the same, checked.
        baseline: what runs, by parameter.
        proofs: properties of this server.
        notes: sentences about what was changed and why.
        warnings: sentences about what the user should do first.
    """

    text: str
    space: SearchSpace
    baseline: Mapping[str, ParameterValue]
    proofs: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def fit_space(facts: Facts, choice: Choice, longest: int) -> Fit:
    """Narrow the space of a family to what this server takes, and widen it to what it runs.

    Args:
        facts: what was read.
        choice: its family.
        longest: longest prompt with its answer that is measured, in tokens.

    Raises:
        UserError: what runs cannot be written as a configuration; the message says what to do.
    """
    return _Fitting(facts, choice, longest).fit()


class _Fitting:
    """One fitting: what is to be changed is collected on the way."""

    def __init__(self, facts: Facts, choice: Choice, longest: int) -> None:
        self._facts = facts
        self._family = choice.family
        self._longest = longest
        self._text = _read_packaged(choice.family.space)
        self._file = parse_search_space_file(self._text, f"search_spaces/{choice.family.space}.toml")
        self._changes: dict[tuple[str, str], Change] = {}
        self._notes: list[str] = list(choice.why_not)
        self._warnings: list[str] = []

    def fit(self) -> Fit:
        """Return the space and the baseline."""
        facts = self._facts
        found = read_configuration(SearchSpace(self._file), facts.command, facts.environment, facts.reported)
        without = self._find_unsupported()
        block = self._fit_block(without)
        for name, parameter in self._file.parameters.items():
            if name not in without:
                self._fit_domain(name, parameter, found, block)
        self._check_thresholds()
        text = inline_space(self._text, self._changes, without)
        try:
            file = SearchSpaceFile.model_validate(tomllib.loads(text)[TABLE])
            proofs = self._find_proofs(file)
            space = SearchSpace(file, frozenset(proofs))
            found = read_configuration(space, facts.command, facts.environment, facts.reported)
            self._check_found(found)
            space.resolve(_write_none(found.values))
        except SearchSpaceError as error:
            raise UserError(
                f"what the service runs is no configuration of {self._family.title}: {error.message}",
                where=facts.unit,
                hint=error.hint,
            ) from error
        return Fit(text, space, found.values, proofs, tuple(self._notes), tuple(self._warnings))

    def _find_unsupported(self) -> frozenset[str]:
        """Parameters and stated values that this server does not take."""
        facts = self._facts
        unsupported = set()
        for name, item in (*self._file.parameters.items(), *self._file.derived.items()):
            if item.flag is not None and facts.supports(item.flag, *item.also_spelled) is False:
                unsupported.add(name)
                self._notes.append(f"{name} is left out: the server does not take {item.flag}")
            elif item.flag is not None and facts.supports(item.flag) is False:
                table = "parameters" if name in self._file.parameters else "derived"
                self._spell_as_taken(f"{table}.{name}", item.flag, item.also_spelled)
            variable = item.environment
            if variable is None or variable in facts.environment or facts.source is None:
                continue
            if variable not in facts.source.variables:
                unsupported.add(name)
                self._notes.append(f"{name} is left out: the installed files do not name {variable}")
        return frozenset(unsupported)

    def _spell_as_taken(self, path: str, flag: str, others: list[str]) -> None:
        """Write a flag by the name that this server knows it by."""
        taken = next(other for other in others if self._facts.supports(other))
        self._changes[path, "flag"] = Change(f'"{taken}"', f"this server does not take {flag}")
        self._changes[path, "also_spelled"] = Change(f'["{flag}"]', "its newer name")
        self._changes[path, "reported_as"] = Change(f'"{identify(taken)}"', "as the flag is called")

    def _fit_block(self, without: frozenset[str]) -> int | None:
        """State the drafter's block as this server has it."""
        item = self._file.derived.get("block")
        if item is None or "block" in without:
            return None
        facts = self._facts
        written = find_flag(facts.command, item.flag or "", *item.also_spelled)
        names = [item.reported_as or "", *map(identify, item.also_spelled)]
        told = facts.reported or {}
        reported = next((told[name] for name in names if told.get(name) is not None), None)
        block = written if written is not None else reported if reported is not None else facts.drafter_block
        source = (
            "its command" if written is not None else "/server_info" if reported is not None else "the drafter's files"
        )
        if block is None and self._family.space == EMBEDDED:
            block, source = item.value, "its packaged drafter"
        if block is None or not str(block).isdecimal() or int(str(block)) < 2:
            raise UserError(
                "the drafter's block is not known: neither the command nor the server or the drafter's files tell it",
                where=facts.unit,
                hint=f"write {item.flag} into the unit, or {_START}",
            )
        block = int(str(block))
        self._changes["derived.block", "value"] = Change(str(block), f"by {source}")
        if written is not None and reported is not None and str(reported) != written:
            self._changes["derived.block", "reported_as"] = Change(
                None, f"the server is given {written} and reports {reported}"
            )
            self._notes.append(f"the block is written as {written} and reported as {reported}: it is not compared")
        return block

    def _fit_domain(
        self, name: str, parameter: IntParameter | ChoiceParameter, found: FoundConfiguration, block: int | None
    ) -> None:
        """Take out values that this server refuses or no cell exercises, and put in the one that runs."""
        runs = found.values.get(name)
        if isinstance(parameter, IntParameter):
            self._fit_range(name, parameter, runs, block)
            return
        choices = list(parameter.choices)
        if name == "window":
            choices = [
                item for item in choices if item is None or (int(item) >= (block or 1) and int(item) < self._longest)
            ]
        if name == "verify" and block is not None:
            choices = [item for item in choices if item is None or int(item) < block]
        if name in found.values and runs not in choices:
            if isinstance(runs, (float, bool)):
                raise UserError(f"{name} is {runs}, which no search space can hold", where=self._facts.unit)
            choices.append(runs)
            numbers = sorted(item for item in choices if isinstance(item, int))
            choices = [item for item in choices if isinstance(item, str)] + numbers + [None] * (None in choices)
            self._notes.append(f"{name}: {_spell(runs)} runs, so it is among the choices")
        if choices != parameter.choices:
            written = ", ".join(_write(item) for item in choices)
            self._changes[f"parameters.{name}", "choices"] = Change(
                f"[{written}]", "what this server and these cells can tell apart"
            )
        if parameter.default not in choices:
            self._changes[f"parameters.{name}", "default"] = Change(_write(choices[-1]), "what is left")

    def _fit_range(self, name: str, parameter: IntParameter, runs: ParameterValue, block: int | None) -> None:
        low, high, because = parameter.low, parameter.high, ""
        if name == "budget" and block is not None:
            reason = self._find_tree_obstacle()
            if reason is not None:
                high, because = min(high, block - 1), f"no trees: {reason}"
                self._notes.append(
                    f"budgets above {block - 1} are left out: {reason}, and a tree needs {self._family.tree_backend} for "
                    "prefill and decode; change the unit and run this again to search trees too"
                )
        if isinstance(runs, (float, bool, str)):
            raise UserError(f"{name} is {runs}, which is no whole number", where=self._facts.unit)
        if runs is not None and not low <= runs <= high:
            low, high, because = min(low, runs), max(high, runs), f"{runs} runs"
            self._notes.append(f"{name}: {runs} runs, so the search goes up to {high}")
        for key, bound, before in (("low", low, parameter.low), ("high", high, parameter.high)):
            if bound != before:
                self._changes[f"parameters.{name}", key] = Change(str(bound), because)
        if not low <= parameter.default <= high:
            self._changes[f"parameters.{name}", "default"] = Change(str(high), "the largest that is left")

    def _find_tree_obstacle(self) -> str | None:
        """Say which attention backend keeps this server from trees."""
        if self._family.tree_backend is None:
            return None
        for phase in ("", "prefill-", "decode-"):
            flag = f"--{phase}attention-backend"
            backend = self._facts.ask(f"{phase.replace('-', '_')}attention_backend", flag)
            if backend is not None and backend != self._family.tree_backend:
                return f"the service runs with {flag} {backend}"
        return None

    def _check_thresholds(self) -> None:
        for name, item in self._file.derived.items():
            if name.startswith("accept_threshold") and item.reported_as is not None:
                value = self._facts.ask_number(item.reported_as, item.flag or "")
                if value is not None and value < 1:
                    self._warnings.append(
                        f"{item.flag} is {value:g}: the service accepts drafts that the model would not have written. The "
                        "study states 1.0 in every trial, so the baseline differs from it: set it to 1.0 in the unit and "
                        "restart the service before a night"
                    )

    def _find_proofs(self, file: SearchSpaceFile) -> tuple[str, ...]:
        """Properties that this very server shows; of no other ones is anything merged."""
        known = {equivalence.proven_by for equivalence in file.equivalences}
        shown = set() if self._facts.source is None else set(self._facts.source.proofs)
        if (
            self._family.space == EMBEDDED
            and (self._facts.reported or {}).get("speculative_ddtree_clip_width") is False
        ):
            shown.add("best-first-tree")
        return tuple(sorted(known & shown))

    def _check_found(self, found: FoundConfiguration) -> None:
        if found.unknown:
            raise UserError(
                f"neither the command nor the server tells {', '.join(found.unknown)}",
                where=self._facts.unit,
                hint=_START,
            )
        self._warnings += [
            f"{sentence}: optimize will find that the baseline runs otherwise than its unit says"
            for sentence in found.contradictions
            if not sentence.startswith("block ")
        ]


def _read_packaged(space: str) -> str:
    path = find_packaged("search_spaces", f"{space}.toml")
    if path is None:
        raise UserError(f"this installation carries no search space {space}", hint="install autotune again")
    return path.read_text(encoding="utf-8")


def _write_none(values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    return {name: NONE_WORD if value is None else value for name, value in values.items()}


def _write(value: ParameterValue) -> str:
    """Write a choice as TOML; words of choices need no escapes."""
    return str(value) if isinstance(value, int) else f'"{_spell(value)}"'


def _spell(value: ParameterValue) -> str:
    return NONE_WORD if value is None else str(value)
