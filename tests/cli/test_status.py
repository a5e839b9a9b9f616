"""`autotune status`, in text and as data, read from a second process."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from autotune.cli.status import explain_left_behind
from autotune.cli.study_argument import OpenedView
from autotune.search_space import search_space_of
from autotune.study import Study
from autotune.study_lock import LOCK_NAME, StudyLock
from autotune.study_view import StudyView
from tests.cli.conftest import run_command
from tests.stored_study import SECRET, leave_open, sample_settings

GOLDEN = """\
Study sample in studies/sample
  trials:      6 counted; 6 complete, 1 pruned, 1 infeasible, 1 failed
  time:        1 min 30 s in 9 boots
  recommended: trial 3 (not proven), budget=8 topk=4 window=none
  why:         trial 3 is the largest geometric mean of both gains on the front while losing at most 0% at either \
concurrency: +8.9% at C=1 and +20.6% at C=32 against the baseline
  gain:        not proven: the noise between boots is unknown: 2 boots of the baseline, three are needed
  C=1:         110 (107 to 113, n=8) tokens/s, +8.9% (-12.4 to +35.4, n=8) against the baseline
  C=32:        960 (932 to 989, n=32) tokens/s, +20.6% (+8.0 to +34.6, n=32) against the baseline
  pass@1:      80% (55 to 100, n=10)
  noise:       2 boots of the baseline differ by 1.4%; three are needed to say which gain can be proven
   trial  kind      state       configuration                 C=1 tok/s    gain  C=32 tok/s    gain  pass@1  accept
       0  baseline  complete    budget=16 topk=4 window=none        100       -         800       -     70%    3.00
       1  listed    complete    budget=0                           50.0  -50.5%         720   -9.5%     70%       -
       2  listed    complete    budget=7 topk=1 window=none        80.0  -20.8%         880  +10.6%     70%    3.00
>      3  listed    complete    budget=8 topk=4 window=none         110   +8.9%         960  +20.6%     80%    3.00
*      4  listed    complete    budget=20 topk=4 window=256         130  +28.7%         760   -4.5%     60%    3.00
       5  listed    pruned      budget=64 topk=8 window=none          -       -         320  -59.8%       -    3.00
       6  listed    infeasible  budget=50 topk=8 window=none          -       -           -       -       -       -
       7  listed    failed      budget=51 topk=8 window=none          -       -           -       -       -       -
       8  baseline  complete    budget=16 topk=4 window=none        102       -         792       -     70%    3.00
> recommended  * also on the front: no other trial is faster at both
trial 5 pruned: after stage busy even an optimistic C=1 would be dominated by trial 4
trial 6 infeasible: out of memory while loading: <script>alert('x')</script> & \\x1b[31mred\\x1b[0m | `code` \
[link](javascript:alert(1))
trial 7 failed: the server ended with exit code -9 and nobody knows why
"""

FIGURE = {"value", "count", "low", "high"}


def test_status_says_what_was_found(run):
    result = run("status", "sample")

    assert result.stdout == GOLDEN
    assert result.stderr == ""
    assert result.exit_code == 0


def test_status_without_a_name_shows_the_study_worked_on_last(run):
    assert run("status").stdout == GOLDEN


def test_a_start_that_was_refused_does_not_become_the_study_worked_on_last(stored, tmp_path, monkeypatch):
    shutil.copytree(stored / "studies" / "sample", tmp_path / "studies" / "sample")
    monkeypatch.chdir(tmp_path)
    with Study.open(sample_settings("refused"), Path("studies/refused")):
        pass

    assert run_command("status").stdout.startswith("Study sample in studies/sample\n")


def test_the_study_worked_on_last_is_the_one_whose_data_is_newest(stored, tmp_path, monkeypatch):
    for name in ("older", "sample"):
        shutil.copytree(stored / "studies" / "sample", tmp_path / "studies" / name)
    os.utime(tmp_path / "studies" / "older" / "study.db", (1.0, 1.0))
    monkeypatch.chdir(tmp_path)

    assert run_command("status").stdout.startswith("Study sample in studies/sample\n")


def test_a_study_may_be_named_by_its_folder_and_by_its_file(run, stored, tmp_path):
    settings = tmp_path / "mine.toml"
    settings.write_text(
        'name = "sample"\nbaseline = {}\n[[benchmark.stages]]\nname = "busy"\ncells = [{context = 1, concurrency = 1}, {context = 1, concurrency = 32}]\n'
    )

    for words in (
        ["./studies/sample"],
        [stored / "studies" / "sample"],
        [settings],
        ["sample", "--study-directory", stored / "studies" / "sample"],
    ):
        assert run("status", *words).stdout.splitlines()[1:] == GOLDEN.splitlines()[1:]


def test_a_folder_may_have_another_name_than_its_study(stored, tmp_path, monkeypatch):
    shutil.copytree(stored / "studies" / "sample", tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)

    assert run_command("status", "--study-directory", "elsewhere").stdout.startswith("Study sample in elsewhere\n")
    assert run_command("status", "./elsewhere").stdout.startswith("Study sample in elsewhere\n")


def test_status_as_data_is_json_and_nothing_else(run):
    data = json.loads(run("status", "--json").stdout)

    assert set(data) == {
        "study",
        "directory",
        "counted",
        "states",
        "baseline",
        "confirmations",
        "recommendation",
        "front",
        "noise",
        "time",
        "trials",
        "restore_command",
    }
    assert data["study"] == "sample"
    assert data["counted"] == 6
    assert data["states"] == {"complete": 6, "failed": 1, "infeasible": 1, "pruned": 1}
    assert data["front"] == [[4], [3]]
    assert data["recommendation"]["trial"] == 3
    assert data["recommendation"]["configuration"] == {"budget": 8, "topk": 4, "window": None}
    assert set(data["recommendation"]["gain_c1"]) == FIGURE
    assert data["recommendation"]["proof"]["is_proven"] is False
    assert set(data["noise"]) == {"boots", "spread", "inside", "smallest_gain"}
    assert data["time"] == {
        "boots": 9,
        "adopted": 0,
        "total_s": 90.0,
        "waiting_s": 22.5,
        "measuring_s": 52.0,
        "evaluating_s": 30.0,
    }
    assert [trial["number"] for trial in data["trials"]] == list(range(9))
    assert set(data["trials"][3]) == {
        "number",
        "confirmation",
        "kind",
        "state",
        "configuration",
        "reason",
        "objectives",
        "gain_c1",
        "gain_c32",
        "accept_length_c1",
        "accept_length_c32",
        "is_on_front",
        "drift",
        "condition",
        "cells",
        "started_at",
        "ended_at",
        "duration_s",
    }


def test_what_is_unknown_is_null_in_the_data(run):
    pruned = json.loads(run("status", "--json").stdout)["trials"][5]

    assert pruned["objectives"]["tokens_per_s_c1"] is None
    assert pruned["gain_c1"] is None
    assert pruned["objectives"]["pass_at_1"] is None
    assert pruned["accept_length_c1"] is None


def test_the_data_holds_no_secret(run):
    assert SECRET not in run("status", "--json").stdout


def test_status_reads_a_study_that_another_process_holds_and_leaves_it_alone(stored, tmp_path, monkeypatch):
    directory = tmp_path / "studies" / "sample"
    shutil.copytree(stored / "studies" / "sample", directory)
    leave_open(directory)
    before = (directory / "study.db").read_bytes()
    monkeypatch.chdir(tmp_path)

    lock = StudyLock(directory)
    try:
        result = run_command("status")
    finally:
        lock.release()

    assert "9  listed    measuring" in result.stdout
    assert (directory / "study.db").read_bytes() == before


def test_what_a_killed_tuner_left_open_is_interrupted(stored, tmp_path, monkeypatch):
    directory = tmp_path / "studies" / "sample"
    shutil.copytree(stored / "studies" / "sample", directory)
    leave_open(directory)
    monkeypatch.chdir(tmp_path)

    text, data = run_command("status").stdout, json.loads(run_command("status", "--json").stdout)

    assert "9  listed    interrupted" in text
    assert "trial 9 interrupted: the tuner ended while this trial was open\n" in text
    assert data["trials"][9]["state"] == "interrupted"
    assert data["restore_command"] is None


def test_status_while_the_lock_is_held(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Study.open(sample_settings(), Path("studies/sample")):
        result = run_command("status")

    assert result.exit_code == 0
    assert "recommended: nothing yet: the baseline has not been measured" in result.stdout


def test_status_without_a_study_says_what_to_do(run_elsewhere, tmp_path):
    result = run_elsewhere("status")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "error: no study has been run here" in result.stderr
    assert "next:  run `autotune optimize --trials 20` first" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_status_of_an_unknown_study_says_so(run):
    result = run("status", "sampl3")

    assert result.exit_code == 2
    assert "there is no study here" in result.stderr


def left_behind(directory: Path, pid: str, **deployment: object) -> str:
    """Return what is said when a lock file of nobody's holds this."""
    directory.mkdir()
    (directory / LOCK_NAME).write_text(pid)
    settings = sample_settings()
    changed = settings.deployment.model_copy(update=deployment)
    view = StudyView(settings.model_copy(update={"deployment": changed}), search_space_of(settings), ())
    return explain_left_behind(OpenedView(view, directory, "", "autotune restore sample"))


def test_a_tuner_that_was_killed_is_said_to_have_died_and_the_host_to_help_itself(tmp_path):
    assert left_behind(tmp_path / "sample", "4711\n", kind="systemd", lease_s=120.0) == (
        "the tuner (process 4711) has died without putting back what was found; the host puts the baseline back by "
        "itself, at most 2 min 0 s after that: wait, or run autotune restore sample"
    )


def test_a_killed_tuner_of_a_local_server_leaves_it_to_restore(tmp_path):
    assert left_behind(tmp_path / "sample", "4711\n") == (
        "the tuner (process 4711) has died without putting back what was found: run autotune restore sample"
    )


def test_a_tuner_that_ended_by_itself_is_not_said_to_have_died(tmp_path):
    assert left_behind(tmp_path / "sample", "").startswith("the tuner has ended without putting back what was found")
