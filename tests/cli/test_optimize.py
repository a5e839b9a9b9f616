"""`autotune optimize` between the command line and the trial loop, and `autotune restore`."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pytest

from autotune.cli import optimize, restore
from autotune.cli.optimize import apply_options, render_ending
from autotune.errors import BaselineError
from autotune.events import Noted, Progress
from autotune.tuner import Limits, NightOutcome
from tests.stored_study import sample_settings

OUTCOME = NightOutcome("20 of 20 trials are done", 0, (), "no server runs, as before")


class Loop:
    """Stands for the trial loop: remembers how it was called, and leaves the sample study behind."""

    def __init__(self, stored: Path, outcome: NightOutcome = OUTCOME, error: Exception | None = None) -> None:
        self.stored = stored
        self.outcome = outcome
        self.error = error
        self.settings = sample_settings()
        self.limits = Limits()
        self.directory = Path()
        self.drain = False

    def __call__(self, settings, limits, observer, *, directory, drain):
        self.settings, self.limits, self.directory, self.drain = settings, limits, directory, drain
        observer(Noted(Progress(0, 20, 0.0), "the loop was here"))
        if self.error is not None:
            raise self.error
        shutil.copytree(self.stored / "studies" / "sample", directory)
        return self.outcome


@pytest.fixture
def loop(stored, tmp_path, monkeypatch):
    """Put the stand-in in place, and a study file called `sample` beside the data."""
    found = Loop(stored)
    monkeypatch.setattr(optimize, "run", found)
    (tmp_path / "studies").mkdir()
    text = (Path(__file__).parents[2] / "studies" / "embedded.toml").read_text(encoding="utf-8")
    (tmp_path / "studies" / "sample.toml").write_text(text.replace('name = "embedded"', 'name = "sample"'))
    return found


def test_the_options_reach_the_trial_loop(run_elsewhere, loop):
    result = run_elsewhere(
        "optimize", "sample", "--trials", "7", "--for", "8h", "--no-pruning", "--seed", "5",
        "--try", "budget=8,topk=4,window=none", "--try", "budget=12",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert loop.limits == Limits(trials=7, duration_s=28800.0)
    assert loop.settings.seed == 5
    assert not loop.settings.pruning.enabled
    assert loop.settings.try_[:2] == ({"budget": 8, "topk": 4, "window": "none"}, {"budget": 12})
    assert loop.directory == Path("studies/sample")
    assert not loop.drain


def test_a_dry_run_prints_the_command_and_the_variables_of_one_trial_and_runs_none(run_elsewhere, loop, tmp_path):
    result = run_elsewhere("optimize", "sample", "--dry-run", "--try", "budget=8,topk=4")

    assert result.exit_code == 0, result.output
    assert "export SGLANG_DDTREE_MAX_TOPK=4\n" in result.stdout
    assert "--speculative-ddtree-budget 8" in result.stdout.splitlines()[-1]
    assert loop.directory == Path()
    assert [path.name for path in (tmp_path / "studies").iterdir()] == ["sample.toml"]


def test_live_users_may_be_drained(run_elsewhere, loop):
    run_elsewhere("optimize", "sample", "--drain")

    assert loop.drain


def test_what_the_command_line_lists_comes_before_what_the_file_lists():
    settings = sample_settings().model_copy(update={"try_": ({"budget": 0},)})

    changed = apply_options(settings, tries=[{"budget": 9}], no_pruning=False, seed=None)

    assert changed.try_ == ({"budget": 9}, {"budget": 0})
    assert changed.model_copy(update={"try_": settings.try_}) == settings


def test_without_a_name_it_is_the_packaged_study(run_elsewhere, loop, monkeypatch):
    loop.error = BaselineError("seen enough")

    run_elsewhere("optimize")

    assert loop.settings.name == "embedded"
    assert loop.directory == Path("studies/embedded")


@pytest.mark.parametrize(
    ("words", "trials"),
    [([], 20), (["--trials", "0"], 0), (["--for", "20m"], None), (["--until", "06:30"], None)],
)
def test_a_limit_in_time_replaces_the_default_number_of_trials(run_elsewhere, loop, words, trials):
    run_elsewhere("optimize", "sample", *words)

    assert loop.limits.trials == trials


def test_until_is_the_next_time_the_clock_shows_it(run_elsewhere, loop):
    run_elsewhere("optimize", "sample", "--until", "06:30")

    now = datetime.now()  # noqa: DTZ005 - the clock on the wall
    assert loop.limits.until is not None
    assert (loop.limits.until.hour, loop.limits.until.minute) == (6, 30)
    assert 0 < (loop.limits.until - now).total_seconds() <= 86400


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--for", "8 hours"], "'8 hours' is not a duration; write for example 90s, 20m, 8h or 1h30m"),
        (["--until", "25:00"], "'25:00' is not a time of day; write for example 06:30"),
        (["--try", "budget"], "'budget' is not name=value"),
        (["--trials", "-1"], "-1 is not in the range x>=0"),
        (["sampl3"], "there is no study called 'sampl3', did you mean 'sample'?"),
        (["nowhere.toml"], "there is no such file"),
    ],
)
def test_a_wrong_word_ends_with_2_and_says_what_is_right(run_elsewhere, loop, words, message):
    result = run_elsewhere("optimize", *words)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_it_ends_with_what_came_out_what_was_put_back_and_what_to_do_next(run_elsewhere, loop):
    result = run_elsewhere("optimize", "sample")

    assert result.stdout == ""
    assert "the loop was here" in result.stderr
    ending = result.stderr.split("Study sample", 1)[1]
    assert "recommended: trial 3 (not proven), budget=8 topk=4 window=none" in ending
    assert "+20.6% (+8.0 to +34.6, n=32) against the baseline" in ending
    assert "  ended:       20 of 20 trials are done\n" in ending
    assert "  server:      no server runs, as before\n" in ending
    assert "  autotune export sample > 50-autotune.conf\n" in ending
    assert "continues" not in ending


def test_what_was_found_for_a_service_is_applied_and_taken_back(stored):
    settings = sample_settings()
    service = settings.model_copy(update={"deployment": settings.deployment.model_copy(update={"kind": "systemd"})})

    lines = render_ending(service, stored / "studies" / "sample", OUTCOME, in_default_place=True)

    text = "\n".join(lines)
    assert "  autotune export sample --apply " in text
    assert "  autotune rollback sample " in text
    assert "50-autotune.conf" not in text


def test_the_next_commands_name_another_place_where_the_data_is(run_elsewhere, loop, tmp_path):
    result = run_elsewhere("optimize", "sample", "--study-directory", tmp_path / "my data")

    assert f"autotune report sample --study-directory '{tmp_path}/my data'" in result.stderr


@pytest.mark.parametrize("code", [130, 143])
def test_a_signal_ends_with_its_code_after_the_summary(run_elsewhere, loop, code):
    loop.outcome = NightOutcome("ended by a signal", code, (), "the baseline serves again as process 7")

    result = run_elsewhere("optimize", "sample")

    assert result.exit_code == code
    assert "the baseline serves again as process 7" in result.stderr
    assert "the same command again continues where this one ended" in result.stderr


def test_a_broken_machine_ends_with_3(run_elsewhere, loop):
    loop.error = BaselineError("the baseline does not serve", hint="mend it")

    result = run_elsewhere("optimize", "sample")

    assert result.exit_code == 3
    assert result.stderr.endswith("error: the baseline does not serve\n  next:  mend it\n")


def test_a_live_board_may_be_asked_for(run_elsewhere, loop):
    result = run_elsewhere("optimize", "sample", "--live")

    assert result.exit_code == 0
    assert "the loop was here" in result.stderr


@pytest.mark.parametrize(
    ("is_left", "sentence"),
    [
        (True, "embedded: a thing was found\nembedded: the server is as it was found\n"),
        (False, "embedded: a thing was found\nembedded: nothing was left to put back (studies/embedded)\n"),
    ],
)
def test_restore_says_whether_anything_was_left(run_elsewhere, monkeypatch, tmp_path, is_left, sentence):
    asked = []

    def put_back(settings, space, *, directory, on_finding):
        asked.append((settings.name, space.name, directory))
        on_finding("a thing was found")
        return is_left

    monkeypatch.setattr(restore, "restore", put_back)

    result = run_elsewhere("restore", "embedded")

    assert result.stderr == sentence
    assert asked == [("embedded", "ddtree", Path("studies/embedded"))]
