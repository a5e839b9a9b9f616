"""Can this unit be tuned and put back, has systemd loaded what was written, and does a process run what it should? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from autotune.deployment.process_command import explain_other_command, explain_other_variables
from autotune.deployment.running_command import expected_command, find_command_differences, find_hidden_flags
from autotune.deployment.systemd_unit import TRIAL_DROP_IN, find_conflicts, trial_drop_in_path
from autotune.deployment.unit import LaunchKind, ProcessFacts, Unit
from autotune.errors import UnitStateError, UnitUnsupportedError, UserError
from autotune.found_configuration import find_flag
from autotune.servers.base import LaunchSpec


def check_unit(unit: Unit, where: str) -> None:
    """Refuse a unit that could not be tuned or put back, before anything is changed.

    Raises:
        UnitUnsupportedError: its server's flags are not reached.
        UnitStateError: something has to be mended first.
    """
    if unit.launch_kind is LaunchKind.CONTAINER:
        raise UnitUnsupportedError(
            "a container tool starts the server, whose flags and processes are not reached from here",
            where=where,
            hint='run the server itself as the service, or run autotune inside the container with kind = "local"',
        )
    ours = trial_drop_in_path(unit.name)
    if any(file.path == ours for file in unit.files):
        raise UnitStateError(
            f"{ours} is left of a study whose record is gone",
            where=where,
            hint=f"remove it, run systemctl daemon-reload and systemctl restart {unit.name}",
        )
    conflicts = find_conflicts(unit, TRIAL_DROP_IN)
    if conflicts:
        raise UnitStateError(
            "; ".join(conflicts), where=where, hint="mend that, run systemctl daemon-reload, then start again"
        )


def check_address(command: Sequence[str], host: str, port: int, where: str) -> None:
    """Refuse a study that asks elsewhere than its server listens, which would be stopped for not becoming ready.

    Args:
        command: the server's own words, as far as they are known; names of hosts and variables say nothing.
        host: address that the study says.
        port: port that the study says.
        where: for the message.

    Raises:
        UserError: the command names another port, or another address.
    """
    said_host, said_port = find_flag(command, "--host") or host, find_flag(command, "--port") or str(port)
    is_elsewhere = _is_other_address(said_host, host)
    if (said_port.isdecimal() and int(said_port) != port) or is_elsewhere:
        address = f'host = "{said_host}" and ' if is_elsewhere else ""
        raise UserError(
            f"the service's server listens at {said_host}:{said_port}, and the study asks {host}:{port}",
            where=where,
            hint=f"write {address}port = {said_port} into [server]",
        )


def _is_other_address(one: str, other: str) -> bool:
    """Whether two addresses cannot mean the same socket; names are not resolved, and all addresses are each."""
    try:
        first, second = ip_address(one), ip_address(other)
    except ValueError:
        return False
    return first != second and not first.is_unspecified and not second.is_unspecified


def check_exchange(unit: Unit, baseline: LaunchSpec, tuned_flags: Mapping[str, bool], where: str) -> None:
    """Refuse a command of which a tuned flag would be left over however it is exchanged, as one that is shortened.

    Raises:
        UnitUnsupportedError: there is one.
    """
    expected = expected_command(unit, baseline, tuned_flags)
    differences = () if expected is None else find_command_differences(unit, baseline, tuned_flags, expected)
    if differences:
        raise UnitUnsupportedError(
            f"tuned flags cannot be exchanged in its command: {'; '.join(differences)}",
            where=where,
            hint="write each of them in full into ExecStart=",
        )


def check_process(unit: Unit, pid: int, facts: ProcessFacts, tuned_flags: Mapping[str, bool], where: str) -> None:
    """Refuse a service that runs another command than it would start: it could not be put back as it was.

    Raises:
        UnitUnsupportedError: tuned flags come from where they cannot be exchanged.
        UnitStateError: the process is not what the unit starts.
    """
    hidden = find_hidden_flags(unit, tuned_flags, facts.command)
    if hidden:
        raise UnitUnsupportedError(
            f"process {pid} has {', '.join(hidden)} from a variable, where they cannot be exchanged",
            where=where,
            hint="write these flags into ExecStart= itself",
        )
    differences = explain_process(unit, None, facts, tuned_flags) if unit.launch_kind is LaunchKind.DIRECT else ()
    if differences:
        raise UnitStateError(
            f"process {pid} runs something else than the unit would start now, so it could not be put back: "
            f"{'; '.join(differences)}",
            where=where,
            hint=f"run systemctl restart {unit.name}, or put the unit's files back as they were",
        )


def check_loaded(
    unit: Unit, plain: Unit, launch: LaunchSpec | None, text: str, tuned_flags: Mapping[str, bool], where: str
) -> None:
    """See that systemd has loaded what we wrote, before anything is started with it.

    Args:
        unit: the service as it is loaded now.
        plain: the same without our drop-in.
        launch: what is to be started; ``None`` for the baseline.
        text: of our drop-in.
        tuned_flags: flags that a configuration may set, and whether each has a value of its own word.
        where: for the message.

    Raises:
        UnitStateError: it has not.
    """
    conflicts = find_conflicts(unit, TRIAL_DROP_IN)
    if conflicts:
        raise UnitStateError("; ".join(conflicts), where=where, hint="somebody has changed the unit: mend that first")
    path = trial_drop_in_path(unit.name)
    ours = next((file for file in unit.files if file.path == path), None)
    if ours is None or ours.text != text or unit.restart != "no":
        raise UnitStateError(
            f"systemd has not loaded {path} as it was written",
            where=where,
            hint=f"look at systemctl cat {unit.name}",
        )
    if launch is not None and unit.launch_kind is LaunchKind.DIRECT:
        differences = find_command_differences(plain, launch, tuned_flags, unit.argv)
        if differences:
            raise UnitStateError(
                f"systemd would start something else than the trial: {'; '.join(differences)}",
                where=where,
                hint=f"look at systemctl cat {unit.name}",
            )


def explain_process(
    unit: Unit, launch: LaunchSpec | None, facts: ProcessFacts, tuned_flags: Mapping[str, bool]
) -> tuple[str, ...]:
    """Say in which respects a process is not what a launch starts; ``None`` stands for the unit's own command."""
    if launch is not None:
        differences = find_command_differences(unit, launch, tuned_flags, facts.command)
        return (*differences, *explain_other_variables(launch, facts.environment))
    if unit.launch_kind is LaunchKind.DIRECT:
        return explain_other_command(
            unit.argv, facts.command, facts.environment, expands_variables=unit.expands_variables
        )
    return find_command_differences(unit, None, tuned_flags, facts.command)
