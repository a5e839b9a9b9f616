"""What would an apply write, how does that differ from what is there, and does the service run it already?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from autotune.apply.export_file import UNIT_FOLDER
from autotune.apply.history import FileState
from autotune.apply.opening import explain_open
from autotune.apply.site import Site, Wanted
from autotune.apply.wanted import choose_mode, is_same_setting, render_diff, tuned_values, without_file
from autotune.deployment.drop_in import render_header
from autotune.deployment.systemd_unit import find_conflicts, render_launch
from autotune.deployment.unit import LaunchKind, Unit
from autotune.deployment.unit_reader import read_unit
from autotune.errors import UnitStateError
from autotune.search_space import Rendering
from autotune.servers.base import LaunchSpec
from autotune.trial import Configuration

_UNDOING: Final = frozenset({"ExecStart"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that is to be put into service.

    Attributes:
        study: name of its study.
        trial: its number.
        configuration: its configuration.
        rendering: flags, and variables with those that every boot of the study gets.
        tuned: flags that may be exchanged, and whether each has a value of its own word.
        reported_names: what the server reports of the tuned parameters.
        arguments_variable: variable that hands the flags to a start script.
    """

    study: str
    trial: int
    configuration: Configuration
    rendering: Rendering
    tuned: Mapping[str, bool]
    reported_names: frozenset[str]
    arguments_variable: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """An apply before anything is changed.

    Attributes:
        wanted: what would be written.
        diff: how it differs from what is there, secrets hidden.
        is_up: whether the service runs, so that it would be restarted.
        is_applied: whether the service runs the configuration already.
    """

    wanted: Wanted
    diff: tuple[str, ...]
    is_up: bool
    is_applied: bool


def prepare(site: Site, candidate: Candidate, header: Sequence[str]) -> Prepared:
    """Render the drop-in around the unit's own command, and compare it with what is there; changes nothing.

    Args:
        site: the host.
        candidate: what is to be put into service.
        header: comment lines.

    Raises:
        UnitStateError: an earlier change never ended, another drop-in would undo ours, or the unit is in no state for it.
        UnitUnsupportedError: its flags cannot be exchanged safely.
        PermissionDenied: mode and owner of what is there cannot be read.
    """
    host, unit_name = site.service.host, site.service.unit
    history = site.archive.read()
    if history.change is not None:
        raise explain_open(history, unit_name, host.name)
    before = site.file.read()
    unit = read_unit(host, unit_name)
    own = without_file(unit, site.file.path)
    _check_conflicts(site, own, candidate)
    launch = LaunchSpec((), candidate.rendering.environment, candidate.rendering.arguments)
    lines = render_launch(own, launch, candidate.tuned, candidate.arguments_variable)
    text = "\n".join([*render_header(header), "[Service]", *lines]) + "\n"
    mode = choose_mode(None if before.content is None else before.mode, [file.mode for file in own.files])
    wanted = Wanted(
        study=candidate.study,
        trial=candidate.trial,
        configuration=candidate.configuration,
        rendering=candidate.rendering,
        tuned=candidate.tuned,
        reported_names=candidate.reported_names,
        file=FileState(text.encode("utf-8", "surrogateescape"), mode, before.user_id, before.group_id),
    )
    state = site.service.read_state()
    return Prepared(
        wanted,
        tuple(render_diff(before.content, wanted.file.content, site.file.path)),
        state.is_up,
        state.is_up and _is_in_unit(unit, before, wanted) and _is_running(site, wanted),
    )


def _check_conflicts(site: Site, own: Unit, candidate: Candidate) -> None:
    """Refuse other drop-ins that would undo ours."""
    variables = set(candidate.rendering.environment)
    if own.launch_kind is LaunchKind.SCRIPT:
        variables.add(candidate.arguments_variable)
    settings_set: frozenset[str] = frozenset() if own.launch_kind is LaunchKind.SCRIPT else _UNDOING
    found = find_conflicts(own, site.file.name, variables, folder=UNIT_FOLDER, settings_set=settings_set)
    if found:
        raise UnitStateError(
            f"another drop-in would undo ours: {'; '.join(found)}",
            where=f"{own.name} on {site.service.host.name}",
            hint=f"or write ours under a name that sorts after it: --name {_name_after(own)}",
        )


def _name_after(unit: Unit) -> str:
    """Return a name for our drop-in that sorts after all others."""
    last = max(PurePath(file.path).name for file in unit.files[1:])
    return f"{last.removesuffix('.conf')}-autotune.conf"


def _is_in_unit(unit: Unit, before: FileState, wanted: Wanted) -> bool:
    """Whether the unit has the wanted configuration, by a drop-in of ours or of its own."""
    if before.content is not None:
        return is_same_setting(before.content, wanted.file.content or b"")
    same_flags = tuned_values(unit.argv, wanted.tuned) == tuned_values(wanted.rendering.arguments, wanted.tuned)
    variables = wanted.rendering.environment
    return same_flags and all(unit.environment.get(name) == value for name, value in variables.items())


def _is_running(site: Site, wanted: Wanted) -> bool:
    """Whether the service runs it, by its own report, its command line and its variables."""
    if not site.service.is_serving():
        return False
    return not site.service.find_differences(wanted.configuration, wanted.rendering, wanted.tuned)
