"""What is shown while a study runs, event by event."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime

import pytest
from rich.console import Console

from autotune.cli import render
from autotune.cli.display import LiveDisplay, PlainDisplay, render_event
from autotune.events import (
    Activity,
    CellMeasured,
    Counted,
    FrontChanged,
    Noted,
    PhaseChanged,
    Progress,
    StudyEnded,
    StudyStarted,
    TrialEnded,
    TrialStarted,
    Waiting,
)
from autotune.trial import Cell, CellMeasurement, Figure, Objectives, TrialKind, TrialRecord, TrialState

PROGRESS = Progress(counted=2, limit=20, elapsed_s=61.0, trial_left_s=12.0, study_left_s=420.0)
CONFIGURATION = {"budget": 8, "topk": 4, "window": None}
EVIL = "\x1b]0;owned\x07[bold red]503"
MEASUREMENT = CellMeasurement(
    cell=Cell(128, 32),
    requests=64,
    succeeded=64,
    output_tokens=6400,
    prompt_tokens=8192,
    cached_tokens=None,
    decode_tokens_per_s=Figure(812.0, 64, 800.0, 824.0),
    total_tokens_per_s=Figure(700.0, 64),
    ttft_s=None,
    tpot_s=None,
    accept_length=Figure(3.25, 64),
    per_prompt_log_speed={},
    duration_s=4.0,
)
TRIAL = TrialRecord(
    number=5,
    kind=TrialKind.SEARCH,
    state=TrialState.COMPLETE,
    configuration=CONFIGURATION,
    objectives=Objectives(Figure(110.0, 8), Figure(960.0, 64), Figure(0.7, 40)),
)
STARTED = StudyStarted(
    PROGRESS, "sample", "studies/sample", "http://127.0.0.1:30110", CONFIGURATION, "nothing listens on the port", 3
)
EVENTS = [
    (
        STARTED,
        "study sample in studies/sample, server http://127.0.0.1:30110, 3 earlier trials; nothing listens on the port",
    ),
    (
        TrialStarted(PROGRESS, 5, TrialKind.SEARCH, CONFIGURATION),
        "trial 5 (3 of 20, search): budget=8 topk=4 window=none",
    ),
    (
        TrialStarted(PROGRESS, 0, TrialKind.BASELINE, CONFIGURATION),
        "trial 0 (baseline): budget=8 topk=4 window=none",
    ),
    (
        TrialStarted(replace(PROGRESS, limit=None), 5, TrialKind.LISTED, CONFIGURATION),
        "trial 5 (3, listed): budget=8 topk=4 window=none",
    ),
    (PhaseChanged(PROGRESS, Activity.LOADING, 5), "trial 5: waiting for the server"),
    (PhaseChanged(PROGRESS, Activity.RESTORING), "restoring the host"),
    (PhaseChanged(PROGRESS, Activity.MEASURING, 5, "busy", Cell(128, 32)), None),
    (Waiting(PROGRESS, 5, "503", 12.0), None),
    (
        CellMeasured(PROGRESS, 5, "busy", MEASUREMENT),
        "trial 5: stage busy, ctx128-c32: 812 (800 to 824, n=64) tokens/s, accept length 3.25",
    ),
    (
        TrialEnded(PROGRESS, TRIAL),
        "trial 5 complete (C=1 110 tok/s, C=32 960 tok/s, pass@1 70%); about 7 min 0 s left",
    ),
    (
        TrialEnded(
            replace(PROGRESS, study_left_s=None),
            replace(TRIAL, state=TrialState.PRUNED, reason="hopeless", objectives=Objectives(None, None, None)),
        ),
        "trial 5 pruned (no figures): hopeless",
    ),
    (
        TrialEnded(
            PROGRESS,
            replace(
                TRIAL,
                state=TrialState.INTERRUPTED,
                reason="ended by a signal",
                objectives=Objectives(None, None, None),
            ),
        ),
        "trial 5 interrupted (no figures): ended by a signal",
    ),
    (
        CellMeasured(PROGRESS, 5, "busy", replace(MEASUREMENT, decode_tokens_per_s=Figure(83.2, 4, -26.5, 193.0))),
        "trial 5: stage busy, ctx128-c32: 83.2 (n=4, interval unknown) tokens/s, accept length 3.25",
    ),
    (Counted(PROGRESS, 5, "answers", 3, 80), None),
    (FrontChanged(PROGRESS, (TRIAL,)), "front: trial 5 (C=1 110 tok/s, C=32 960 tok/s, pass@1 70%)"),
    (Noted(PROGRESS, "one retry", 5), "trial 5: one retry"),
    (Noted(PROGRESS, "the limit was reached"), "the limit was reached"),
    (
        StudyEnded(PROGRESS, "20 trials were run", (TRIAL,), "the host is as it was found"),
        "ended: 20 trials were run; the host is as it was found",
    ),
]


@pytest.mark.parametrize(("event", "line"), EVENTS, ids=lambda value: type(value).__name__)
def test_each_event_is_one_line_or_no_news(event, line):
    assert render_event(event) == line


def test_plain_lines_carry_the_time_of_day_and_go_to_stderr(capsys):
    display = PlainDisplay(now=lambda: datetime.fromisoformat("2026-03-01T22:15:09"))

    with display:
        display(EVENTS[1][0])
        display(Waiting(PROGRESS, 5, "503", 12.0))

    captured = capsys.readouterr()
    assert captured.err == "22:15:09 trial 5 (3 of 20, search): budget=8 topk=4 window=none\n"
    assert captured.out == ""


def test_plain_lines_show_control_characters(capsys):
    PlainDisplay()(Noted(PROGRESS, EVIL))

    assert "\x1b" not in capsys.readouterr().err


def test_a_reader_that_went_away_does_not_end_the_study(monkeypatch):
    def gone(text: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(render, "say", gone)

    PlainDisplay()(Noted(PROGRESS, "still running"))


class Terminal:
    """A live display on a terminal that only remembers."""

    def __init__(self, *, width: int = 120) -> None:
        self.now = 100.0
        self.stream = io.StringIO()
        console = Console(
            file=self.stream, width=width, force_terminal=True, markup=False, emoji=False, highlight=False
        )
        self.display = LiveDisplay(console, clock=lambda: self.now)

    def tell(self, *events) -> str:
        for event in events:
            self.display(event)
        return self.board()

    def board(self) -> str:
        paper = io.StringIO()
        Console(file=paper, width=120, markup=False, emoji=False, highlight=False).print(self.display.board())
        return paper.getvalue()


def test_the_board_shows_trial_activity_figures_time_left_and_front():
    board = Terminal().tell(
        STARTED,
        FrontChanged(PROGRESS, (TRIAL,)),
        TrialStarted(PROGRESS, 6, TrialKind.SEARCH, {"budget": 3, "topk": 2, "window": 256}),
        CellMeasured(PROGRESS, 6, "busy", MEASUREMENT),
        PhaseChanged(PROGRESS, Activity.MEASURING, 6, "single", Cell(128, 1)),
    )

    assert "study sample on http://127.0.0.1:30110, 1 min 1 s so far, about 7 min 0 s left" in board
    assert "trial 6 (3 of 20, search): budget=3 topk=2 window=256" in board
    assert "measuring, stage single, ctx128-c1, about 12 s left in this trial" in board
    assert "busy       ctx128-c32: 812 (800 to 824, n=64) tokens/s, accept length 3.25" in board
    assert "front so far" in board
    assert [line.split() for line in board.splitlines()][-1] == [
        "5",
        "110",
        "960",
        "70%",
        *["budget=8", "topk=4", "window=none"],
    ]


def test_time_goes_on_between_events():
    terminal = Terminal()
    terminal.tell(STARTED, PhaseChanged(PROGRESS, Activity.MEASURING, 6, "single", Cell(128, 1)))

    terminal.now += 20.0

    assert "1 min 21 s so far, about 6 min 40 s left" in terminal.board()
    assert "about 0.0 s left in this trial" in terminal.board()


def test_the_board_counts_coding_answers_and_verdicts_until_something_else_is_done():
    terminal = Terminal()
    board = terminal.tell(PhaseChanged(PROGRESS, Activity.EVALUATING, 6), Counted(PROGRESS, 6, "answers", 3, 80))
    assert "answering coding problems, 3 of 80 answers, about" in board

    board = terminal.tell(Counted(PROGRESS, 6, "verdicts", 79, 80))
    assert "answering coding problems, 79 of 80 verdicts, about" in board

    assert " of 80 " not in terminal.tell(PhaseChanged(PROGRESS, Activity.RESTORING, 6))


def test_a_new_trial_begins_with_an_empty_board():
    board = Terminal().tell(
        TrialStarted(PROGRESS, 5, TrialKind.SEARCH, CONFIGURATION),
        CellMeasured(PROGRESS, 5, "busy", MEASUREMENT),
        TrialStarted(PROGRESS, 6, TrialKind.SEARCH, CONFIGURATION),
    )

    assert "ctx128-c32" not in board


def test_a_trial_that_ended_leaves_the_board():
    board = Terminal().tell(
        TrialStarted(PROGRESS, 5, TrialKind.SEARCH, CONFIGURATION),
        CellMeasured(PROGRESS, 5, "busy", MEASUREMENT),
        TrialEnded(PROGRESS, TRIAL),
        PhaseChanged(PROGRESS, Activity.RESTORING),
    )

    assert "trial 5" not in board
    assert "ctx128-c32" not in board
    assert "restoring the host" in board


def test_after_an_interruption_no_time_is_promised_until_another_trial_begins():
    terminal = Terminal()
    interrupted = replace(TRIAL, state=TrialState.INTERRUPTED)

    after = terminal.tell(STARTED, TrialEnded(PROGRESS, interrupted), PhaseChanged(PROGRESS, Activity.RESTORING))
    again = terminal.tell(TrialStarted(PROGRESS, 6, TrialKind.SEARCH, CONFIGURATION))

    assert "left" not in after
    assert "about 7 min 0 s left" in again


def test_what_the_server_answers_is_shown_as_text():
    board = Terminal().tell(PhaseChanged(PROGRESS, Activity.LOADING, 5), Waiting(PROGRESS, 5, EVIL, 12.0))

    assert "waiting for the server, 12 s, last answer: \\x1b]0;owned\\x07[bold red]503" in board
    assert "\x1b]0" not in board


def test_results_stay_above_the_board():
    terminal = Terminal()
    with terminal.display as display:
        display(STARTED)
        display(TrialEnded(PROGRESS, TRIAL))

    assert "trial 5 complete (C=1 110 tok/s, C=32 960 tok/s, pass@1 70%)" in terminal.stream.getvalue()


def test_a_terminal_that_went_away_does_not_end_the_study(monkeypatch):
    terminal = Terminal()

    def gone(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(terminal.display._console, "print", gone)

    terminal.display(TrialEnded(PROGRESS, TRIAL))


def test_a_configuration_is_described_as_its_search_space_does():
    event = TrialStarted(PROGRESS, 5, TrialKind.SEARCH, CONFIGURATION)

    assert str(render_event(event, lambda _: "budget=0")).endswith(": budget=0")
