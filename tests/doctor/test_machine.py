"""The machine of the tuner."""

from __future__ import annotations

import pytest

from autotune.doctor.finding import Level
from autotune.doctor.machine import (
    GIB,
    MIB,
    Capacity,
    Session,
    check_sandbox,
    judge_capacity,
    judge_disk,
    judge_others,
    judge_sandbox,
    judge_session,
    look_at_session,
    measure_capacity,
    measure_free_bytes,
)
from autotune.measuring_mark import Work
from autotune.settings import EvaluationSettings


@pytest.mark.parametrize(("free", "level"), [(100 * MIB, Level.PROBLEM), (GIB, Level.WARNING), (50 * GIB, Level.OK)])
def test_room_for_the_records_of_a_night(free, level):
    assert judge_disk(free, "studies/x").level is level


def test_the_room_of_a_folder_that_is_not_there_yet_is_that_of_the_nearest_one(tmp_path):
    missing = tmp_path / "a" / "b"

    assert measure_free_bytes(missing) > 0
    assert not missing.exists()


@pytest.mark.parametrize(
    ("capacity", "level"),
    [
        (Capacity(1, 8 * GIB), Level.WARNING),
        (Capacity(2, GIB), Level.WARNING),
        (Capacity(2, 8 * GIB), Level.OK),
        (Capacity(2, None), Level.OK),
    ],
)
def test_the_load_generator_needs_room(capacity, level):
    assert judge_capacity(capacity).level is level


def test_this_machine_has_processors_and_memory():
    found = measure_capacity()

    assert found.processors >= 1
    assert found.memory_bytes is not None
    assert found.memory_bytes > 0


@pytest.mark.parametrize(
    ("group", "environment", "session", "level"),
    [
        ("0::/user.slice/user-0.slice/session-3.scope", {}, Session(True, False, False), Level.WARNING),
        ("0::/user.slice/user-0.slice/session-3.scope", {"SSH_CONNECTION": "1"}, Session(True, True, False), Level.WARNING),
        ("0::/user.slice/user-0.slice/session-3.scope", {"SSH_CONNECTION": "1", "TMUX": "x"}, Session(True, True, True), Level.OK),
        ("0::/system.slice/x.service", {"STY": "x"}, Session(False, False, True), Level.OK),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/run-1.service", {}, Session(False, False, False), Level.OK),
    ],
)  # fmt: skip
def test_a_night_that_would_end_with_the_login_is_said(tmp_path, group, environment, session, level):
    cgroup = tmp_path / "cgroup"
    cgroup.write_text(f"{group}\n")

    assert look_at_session(environment, cgroup) == session
    assert judge_session(session).level is level


def test_a_machine_that_ends_logins_ends_tmux_too():
    judged = judge_session(Session(is_login=True, is_remote=True, is_kept=True, is_ended=True))

    assert judged.level is Level.WARNING
    assert "KillUserProcesses=yes" in judged.found


def test_a_machine_without_control_groups_says_nothing(tmp_path):
    assert look_at_session({}, tmp_path / "nothing") == Session(False, False, False)


def test_the_sandbox_holds_here():
    judged = judge_sandbox(check_sandbox(EvaluationSettings()))

    assert judged.level is Level.OK
    assert judged.found.startswith("holds a program that tries to get out; around it")


def test_missing_layers_that_the_settings_accept_are_a_warning():
    judged = judge_sandbox(("limits", "no rights", "seccomp"))

    assert judged.level is Level.WARNING
    assert judged.found == "generated code runs without Landlock, as evaluation.isolation says"


@pytest.mark.parametrize(
    ("judging", "measuring", "level", "words"),
    [
        ((7,), (8,), Level.PROBLEM, "process 7 of autotune evaluates"),
        ((), (8,), Level.WARNING, "process 8 of autotune measures"),
        ((), (), Level.OK, "no other command"),
    ],
)
def test_what_else_is_measured_or_judged_here_is_said(judging, measuring, level, words):
    judged = judge_others({Work.JUDGING: judging, Work.MEASURING: measuring})

    assert judged.level is level
    assert words in judged.found
