"""What is shown while a study runs: a live board on a terminal, timestamped lines anywhere else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from autotune.cli import render
from autotune.events import (
    CellMeasured,
    Counted,
    Event,
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
from autotune.export.wording import (
    UNKNOWN,
    clean,
    render_configuration,
    render_count,
    render_duration,
    render_figure,
    render_number,
)
from autotune.trial import CellMeasurement, Configuration, Objectives, TrialKind, TrialRecord, TrialState


def render_event(event: Event, describe: Callable[[Configuration], str] = render_configuration) -> str | None:
    """Say one event in a line; ``None`` for events that are no news in a log."""
    match event:
        case StudyStarted():
            earlier = f", {render_count(event.earlier, 'earlier trial')}" if event.earlier else ""
            return f"study {event.study} in {event.folder}, server {event.url}{earlier}; {event.found}"
        case TrialStarted():
            position = render_position(event.progress, event.kind)
            return f"trial {event.number} ({position}): {describe(event.configuration)}"
        case PhaseChanged(cell=None):
            return f"{_trial(event.number)}{event.activity.value}"
        case CellMeasured():
            return f"{_trial(event.number)}stage {event.stage}, {render_cell(event.measurement)}"
        case TrialEnded():
            reason = f": {event.trial.reason}" if event.trial.reason else ""
            # After an interruption only the restore is left, which the plan of the study does not tell.
            left = None if event.trial.state is TrialState.INTERRUPTED else event.progress.study_left_s
            tail = f"; about {render_duration(left)} left" if left is not None else ""
            return (
                f"trial {event.trial.number} {event.trial.state.value}"
                f" ({render_objectives(event.trial.objectives)}){reason}{tail}"
            )
        case FrontChanged():
            return f"front: {'; '.join(f'trial {t.number} ({render_objectives(t.objectives)})' for t in event.front)}"
        case Noted():
            return f"{_trial(event.number)}{event.sentence}"
        case StudyEnded():
            return f"ended: {event.reason}; {event.restored}"
        case _:
            return None


def render_position(progress: Progress, kind: TrialKind) -> str:
    """Say which of how many trials this is, or why it is not counted."""
    if not kind.counts:
        return kind.value
    limit = "" if progress.limit is None else f" of {progress.limit}"
    return f"{progress.counted + 1}{limit}, {kind.value}"


def render_cell(measurement: CellMeasurement) -> str:
    """Say what one cell measured."""
    accept = measurement.accept_length
    tail = "" if accept is None else f", accept length {render_number(accept.value)}"
    return f"{measurement.cell.name}: {render_figure(measurement.decode_tokens_per_s)} tokens/s{tail}"


def render_objectives(objectives: Objectives) -> str:
    """Say the three objectives, leaving out what is unknown."""
    parts = [
        f"{name} {render_number(figure.value)} tok/s"
        for name, figure in (("C=1", objectives.tokens_per_s_c1), ("C=32", objectives.tokens_per_s_c32))
        if figure is not None
    ]
    if objectives.pass_at_1 is not None:
        parts.append(f"pass@1 {100 * objectives.pass_at_1.value:.0f}%")
    return ", ".join(parts) or "no figures"


class PlainDisplay:
    """Prints one timestamped line for every event that is news; for pipes, logs and journals."""

    def __init__(
        self,
        now: Callable[[], datetime] = datetime.now,
        describe: Callable[[Configuration], str] = render_configuration,
    ) -> None:
        self._describe = describe
        self._now = now

    def __enter__(self) -> Self:
        """Nothing to set up."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""

    def __call__(self, event: Event) -> None:
        """Print the event; a reader that went away must not end a night's work."""
        line = render_event(event, self._describe)
        if line is not None:
            with contextlib.suppress(OSError):
                render.say(f"{self._now():%H:%M:%S} {clean(line)}")


class LiveDisplay:
    """A board on a terminal: trial, activity, stage, last figures, time left and the front so far."""

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        describe: Callable[[Configuration], str] = render_configuration,
    ) -> None:
        self._describe = describe
        self._console = console or Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._clock = clock
        self._spinner = Spinner("dots", style="cyan")
        self._started: StudyStarted | None = None
        self._trial: TrialStarted | None = None
        self._phase: PhaseChanged | None = None
        self._answer: Waiting | None = None
        self._count: Counted | None = None
        self._cells: tuple[CellMeasured, ...] = ()
        self._front: tuple[TrialRecord, ...] = ()
        self._progress: Progress | None = None
        self._is_interrupted = False
        self._progress_at = clock()
        self._live = Live(get_renderable=self.board, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        """Take the bottom of the terminal."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back, where it is still there."""
        with contextlib.suppress(OSError):
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take the event into the board; results stay above it as lines. A lost terminal is no reason to stop."""
        self._progress, self._progress_at = event.progress, self._clock()
        match event:
            case StudyStarted():
                self._started = event
            case TrialStarted():
                self._trial, self._phase, self._answer, self._cells = event, None, None, ()
                self._count = None
                self._is_interrupted = False
            case PhaseChanged():
                self._phase, self._answer, self._count = event, None, None
            case Waiting():
                self._answer = event
            case Counted():
                self._count = event
            case CellMeasured():
                self._cells = (*self._cells, event)
            case TrialEnded():
                self._trial, self._phase, self._answer, self._cells = None, None, None, ()
                self._count = None
                self._is_interrupted = event.trial.state is TrialState.INTERRUPTED
            case FrontChanged():
                self._front = event.front
            case _:
                pass
        if isinstance(event, StudyStarted | TrialEnded | Noted | StudyEnded):
            with contextlib.suppress(OSError):
                self._console.print(Text(clean(render_event(event, self._describe) or "")))

    def board(self) -> RenderableType:
        """Draw what is known now."""
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        if self._trial is not None and self._progress is not None:
            position = render_position(self._trial.progress, self._trial.kind)
            parts.append(Text(f"trial {self._trial.number} ({position}): {self._describe(self._trial.configuration)}"))
        if self._phase is not None:
            self._spinner.update(text=Text(self._activity()))
            parts.append(self._spinner)
        parts += [Text(f"  {event.stage:<10} {render_cell(event.measurement)}") for event in self._cells]
        if self._front:
            parts.append(self._front_table())
        return Group(*parts)

    def _headline(self) -> str:
        name = "autotune" if self._started is None else f"study {self._started.study} on {self._started.url}"
        if self._progress is None:
            return name
        passed = self._clock() - self._progress_at
        parts = [name, f"{render_duration(self._progress.elapsed_s + passed)} so far"]
        if self._progress.study_left_s is not None and not self._is_interrupted:
            parts.append(f"about {render_duration(max(self._progress.study_left_s - passed, 0.0))} left")
        return ", ".join(parts)

    def _activity(self) -> str:
        if self._phase is None:
            return ""
        parts = [self._phase.activity.value]
        if self._phase.stage is not None:
            parts.append(f"stage {self._phase.stage}")
        if self._phase.cell is not None:
            parts.append(self._phase.cell.name)
        if self._count is not None:
            parts.append(f"{self._count.done} of {self._count.of} {self._count.what}")
        if self._answer is not None:
            parts.append(f"{render_duration(self._answer.waited_s)}, last answer: {clean(self._answer.answer)}")
        if self._progress is not None and self._progress.trial_left_s is not None and not self._is_interrupted:
            left = self._progress.trial_left_s - (self._clock() - self._progress_at)
            parts.append(f"about {render_duration(max(left, 0.0))} left in this trial")
        return ", ".join(parts)

    def _front_table(self) -> Table:
        table = Table(title="front so far", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for header in ("trial", "C=1 tok/s", "C=32 tok/s", "pass@1"):
            table.add_column(header, justify="right")
        table.add_column("configuration")
        for trial in self._front:
            known = trial.objectives
            table.add_row(
                str(trial.number),
                UNKNOWN if known.tokens_per_s_c1 is None else render_number(known.tokens_per_s_c1.value),
                UNKNOWN if known.tokens_per_s_c32 is None else render_number(known.tokens_per_s_c32.value),
                UNKNOWN if known.pass_at_1 is None else f"{100 * known.pass_at_1.value:.0f}%",
                self._describe(trial.configuration),
            )
        return table


def _trial(number: int | None) -> str:
    return "" if number is None else f"trial {number}: "
