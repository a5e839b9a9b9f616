"""Judgements on a unit, by value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.deployment.unit import LaunchKind, ProcessFacts, Unit, UnitFile, UnitState
from autotune.deployment.unit_file import Word
from autotune.doctor.finding import Judgement, Level
from autotune.doctor.service import (
    Launches,
    Properties,
    judge_draft_hook,
    judge_drop_ins,
    judge_files_read,
    judge_kill_mode,
    judge_launch,
    judge_other_units,
    judge_restart,
    judge_run_time,
    judge_running_command,
    judge_start_limit,
    judge_start_timeout,
    judge_state,
    judge_stop_timeout,
    judge_systemd_version,
    judge_type,
    judge_unit,
    parse_properties,
)
from autotune.errors import UnitUnsupportedError
from autotune.servers.base import DraftLogPlace, LaunchSpec
from tests.records import make_settings

WORDS = ("/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000", "--speculative-ddtree-budget", "16")
UNIT = Unit(
    name="sglang.service",
    files=(UnitFile("/etc/systemd/system/sglang.service", f"[Service]\nExecStart={' '.join(WORDS)}\n", 0o644),),
    argv=WORDS,
    words=tuple(Word(word, word) for word in WORDS),
    environment={},
    unset_environment=(),
    environment_files=(),
    launch_kind=LaunchKind.DIRECT,
    type="simple",
    restart="always",
    kill_mode="control-group",
    user="root",
    timeout_start_s=90.0,
    timeout_stop_s=90.0,
    is_enabled=True,
    needs_reload=False,
)
STATE = UnitState("active", "running", "success", 0, 4711, None, "abc", "/system.slice/sglang.service")
IN_ORDER = """\
LoadState=loaded
UnitFileState=enabled
NeedDaemonReload=no
RefuseManualStart=no
RefuseManualStop=no
Type=simple
Restart=always
KillMode=control-group
StartLimitAction=none
FailureAction=none
SuccessAction=none
RuntimeMaxUSec=infinity
WatchdogUSec=0
TriggeredBy=
OnFailure=
RequiredBy=multi-user.target
StandardOutput=journal
StandardError=inherit
"""


def shown(**changes: str) -> Properties:
    return {**parse_properties(IN_ORDER), **changes}


JUDGES = [
    judge_unit,
    judge_files_read,
    judge_type,
    judge_restart,
    judge_start_limit,
    judge_kill_mode,
    judge_run_time,
    judge_other_units,
]


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
def test_a_unit_in_order_is_ok_in_every_respect(judge):
    assert judge(shown()).level is Level.OK


@pytest.mark.parametrize(
    ("judge", "change", "level", "words"),
    [
        (judge_unit, {"LoadState": "not-found"}, Level.PROBLEM, "the unit is not-found"),
        (judge_unit, {"LoadState": "masked"}, Level.PROBLEM, "the unit is masked"),
        (judge_unit, {"LoadState": "bad-setting"}, Level.PROBLEM, "the unit is bad-setting"),
        (judge_unit, {"RefuseManualStop": "yes"}, Level.PROBLEM, "RefuseManualStop is set"),
        (judge_files_read, {"NeedDaemonReload": "yes"}, Level.PROBLEM, "changed since systemd read it"),
        (judge_type, {"Type": "forking"}, Level.PROBLEM, "Type=forking"),
        (judge_type, {"Type": "oneshot"}, Level.PROBLEM, "Type=oneshot"),
        (judge_type, {"Type": "notify"}, Level.OK, "Type=notify"),
        (judge_start_limit, {"StartLimitAction": "reboot"}, Level.PROBLEM, "StartLimitAction=reboot"),
        (judge_start_limit, {"FailureAction": "poweroff-force"}, Level.PROBLEM, "FailureAction=poweroff-force"),
        (judge_kill_mode, {"KillMode": "mixed"}, Level.OK, "KillMode=mixed"),
        (judge_kill_mode, {"KillMode": "process"}, Level.PROBLEM, "KillMode=process"),
        (judge_kill_mode, {"KillMode": "none"}, Level.PROBLEM, "KillMode=none"),
        (judge_run_time, {"RuntimeMaxUSec": "1h"}, Level.WARNING, "RuntimeMaxSec=1h"),
        (judge_run_time, {"WatchdogUSec": "30s"}, Level.WARNING, "WatchdogSec=30s"),
        (judge_other_units, {"TriggeredBy": "x.timer"}, Level.WARNING, "TriggeredBy=x.timer"),
        (judge_other_units, {"UpheldBy": "x.service"}, Level.WARNING, "UpheldBy=x.service: each stop"),
        (
            judge_other_units,
            {"RequiredBy": "multi-user.target y.service"},
            Level.WARNING,
            "RequiredBy=y.service: down while",
        ),
        (judge_other_units, {"PropagatesStopTo": "y.service"}, Level.WARNING, "started again afterwards"),
        (judge_restart, {"Restart": "no"}, Level.OK, "Restart=no"),
    ],
)
def test_each_setting_is_judged_by_itself(judge, change, level, words):
    judged = judge(shown(**change))

    assert (judged.level, words in judged.found) == (level, True), judged
    assert (judged.advice is None) == (level is Level.OK)


def test_a_property_that_an_old_systemd_does_not_have_says_nothing():
    bare = parse_properties("LoadState=loaded\nType=simple\nKillMode=mixed\n")

    for judge in JUDGES:
        assert judge(bare).level is Level.OK


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.OK),
        ({"restarts": 3}, Level.WARNING),
        ({"active_state": "activating", "sub_state": "auto-restart", "restarts": 9}, Level.PROBLEM),
        ({"active_state": "activating", "sub_state": "start"}, Level.WARNING),
        ({"active_state": "failed", "sub_state": "failed", "result": "exit-code"}, Level.PROBLEM),
        ({"active_state": "failed", "sub_state": "failed", "result": "start-limit-hit"}, Level.PROBLEM),
        ({"active_state": "inactive", "sub_state": "dead"}, Level.WARNING),
    ],
)
def test_active_alone_does_not_mean_that_it_stays_up(change, level):
    """Case 5: a unit in a restart loop is active whenever one looks between two crashes."""
    assert judge_state(replace(STATE, **change)).level is level


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.OK),
        ({"type": "notify"}, Level.WARNING),
        ({"type": "notify", "timeout_start_s": 600.0}, Level.OK),
        ({"type": "notify", "timeout_start_s": None}, Level.OK),
        ({"hooks": (("ExecStartPre", ("/bin/true",)),)}, Level.WARNING),
        ({"hooks": (("ExecStop", ("/bin/true",)),)}, Level.OK),
    ],
)
def test_the_start_timeout_counts_where_systemd_waits_for_the_start(change, level):
    assert judge_start_timeout(replace(UNIT, **change), 600.0).level is level


@pytest.mark.parametrize(
    ("limit_s", "level"),
    [(None, Level.WARNING), (30.0, Level.WARNING), (60.0, Level.OK), (90.0, Level.OK), (900.0, Level.WARNING)],
)
def test_a_stop_that_kills_a_draining_server_or_is_not_waited_for_is_said(limit_s, level):
    assert judge_stop_timeout(replace(UNIT, timeout_stop_s=limit_s), 60.0).level is level


def process(*command: str) -> ProcessFacts:
    return ProcessFacts(command, {}, 0.0, "/system.slice/sglang.service")


@pytest.mark.parametrize(
    ("command", "level"),
    [
        (WORDS, Level.OK),
        (("/usr/bin/python3.11", *WORDS[1:]), Level.OK),
        ((*WORDS[:-1], "32"), Level.WARNING),
        ((*WORDS, "--extra"), Level.WARNING),
        (("/bin/sleep", "1"), Level.WARNING),
    ],
)
def test_what_runs_is_compared_with_what_a_restore_brings_back(command, level):
    assert judge_running_command(UNIT, process(*command)).level is level


def test_an_interpreter_may_stand_before_the_program():
    words = ("/opt/launch", "--port", "30000")
    unit = replace(UNIT, argv=words, words=tuple(Word(word, word) for word in words))

    assert judge_running_command(unit, process("/usr/bin/python3", *words)).level is Level.OK


def test_a_process_that_has_just_gone_is_said():
    assert judge_running_command(UNIT, None).level is Level.WARNING


def judge_it(unit: Unit) -> Judgement:
    launches = Launches(
        (LaunchSpec((), {}, ("--speculative-ddtree-budget", "8")),), {"--speculative-ddtree-budget": True}
    )
    return judge_launch(unit, launches, make_settings())


def test_a_direct_launch_takes_flags():
    assert judge_it(UNIT).level is Level.OK


def test_secrets_of_the_command_are_not_shown():
    argv = (*WORDS, "--api-key", "sk-1")
    unit = replace(UNIT, argv=argv, words=tuple(Word(word, word) for word in argv))

    said = [judge_it(unit), judge_running_command(unit, process(*argv)), judge_running_command(UNIT, process(*argv))]

    assert "sk-1" not in str(said)
    assert "--api-key (hidden)" in str(said)


def test_a_container_is_refused_with_what_to_do():
    argv = ("/usr/bin/docker", "run", "sglang")
    unit = replace(UNIT, argv=argv, words=tuple(Word(word, word) for word in argv), launch_kind=LaunchKind.CONTAINER)

    with pytest.raises(UnitUnsupportedError, match="container"):
        judge_it(unit)


def test_a_drop_in_that_undoes_ours_is_a_problem():
    assert judge_drop_ins(UNIT, ()).level is Level.OK
    assert judge_drop_ins(UNIT, ("zzzz.conf sets Restart=",)).found == "zzzz.conf sets Restart="


@pytest.mark.parametrize(("version", "level"), [(252, Level.OK), (245, Level.OK), (237, Level.PROBLEM)])
def test_an_old_systemd_is_refused(version, level):
    assert judge_systemd_version(version).level is level


def test_a_hook_that_fits_says_where_and_how_much_and_one_that_does_not_says_why():
    place = DraftLogPlace("/run/autotune/x/draft-hook/drafts.jsonl", "/run/autotune/x/draft-hook", "/opt", 3 * 2**20)

    fits, fits_not = judge_draft_hook(place), judge_draft_hook("its user exists only while it runs")

    said = "it would lie in /run/autotune/x/draft-hook, before /opt, and log at most 3 MiB there"
    assert (fits.level, fits.found) == (Level.OK, said)
    assert (fits_not.level, fits_not.found) == (Level.WARNING, "it would not fit: its user exists only while it runs")
    assert "learned from trials" in (fits_not.advice or "")
