"""What sudo and the search path say, by value."""

from __future__ import annotations

from autotune.deployment.sudo_rights import ROOT_COMMANDS, Right, list_uses
from autotune.doctor.finding import Level
from autotune.doctor.rights import TOOLS, Rights, judge_rights, judge_tools
from autotune.errors import PermissionDenied

PATHS = {name: f"/usr/bin/{name}" for name in ROOT_COMMANDS}


def rights(**other: Right) -> Rights:
    given = dict.fromkeys(ROOT_COMMANDS, Right.GIVEN)
    return Rights("ann", {**given, **{name.replace("_", "-"): right for name, right in other.items()}}, PATHS)


def test_all_commands_without_a_password_are_ok():
    assert judge_rights(rights()).level is Level.OK


def test_the_line_for_sudoers_holds_exactly_what_is_missing():
    judged = judge_rights(rights(mv=Right.REFUSED, systemd_run=Right.PASSWORD))

    assert (judged.level, judged.branch) == (Level.PROBLEM, PermissionDenied)
    assert judged.found == "sudo does not run: mv (refused), systemd-run (needs a password)"
    assert (judged.advice or "").endswith(": ann ALL=(root) NOPASSWD: /usr/bin/mv, /usr/bin/systemd-run")


def test_arguments_are_asked_for_each_command_as_a_night_gives_them():
    uses = list_uses("x.service")

    assert set(uses) == set(ROOT_COMMANDS)
    assert "/run/systemd/system/x.service.d/zzz-autotune-trial.conf" in uses["rm"]


def test_a_program_that_is_missing_is_named():
    paths: dict[str, str | None] = dict.fromkeys((*TOOLS, *ROOT_COMMANDS), "/bin/x")

    assert judge_tools(paths).level is Level.OK
    paths["flock"] = None
    assert judge_tools(paths).found == "the host has no flock"
