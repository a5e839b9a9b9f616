"""How well does one boot answer the coding problems? Asks for all answers, then judges them, nothing else running."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from autotune.api_key import ApiKey
from autotune.benchmark.api_fields import ApiFields
from autotune.benchmark.event_loop import run
from autotune.benchmark.metrics import advise
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import Outcome
from autotune.benchmark.text_sanity import look_at_text, render_sanity
from autotune.errors import NothingSucceeded, ProblemSetChanged, TooManyFailures
from autotune.evaluation.answers import Answers, Questions, measure_speed
from autotune.evaluation.judging import judge_answers
from autotune.evaluation.problem import hash_problems
from autotune.evaluation.problem_source import choose_problems
from autotune.evaluation.sandbox import DEMANDED, Sandbox
from autotune.evaluation.scoring import render_notes, truncated_share
from autotune.pass_rate import score_pass_at_1, score_pass_at_k
from autotune.settings import EvaluationSettings
from autotune.trial import EvaluationMeasurement, ProblemResult

_FEWEST_ANSWERED = 0.9
"""With a smaller share of answers, pass@1 would be that of a selection."""
_ALL_FIELDS = ApiFields()

OnProgress = Callable[[str, int, int], None]
"""Receives what is counted (``answers`` or ``verdicts``), how many there are, and of how many."""


class Evaluation:
    """Evaluates one boot of one server.

    Args:
        url: base URL of the server.
        settings: how many problems are asked and how.
        records_path: JSON lines: an ``evaluation`` line with everything that was stated, a ``request`` line as each
            answer ends, a ``text`` line about how the answers look, a ``verdict`` line per answer with the code that was
            judged, and an ``evaluated`` line.
        on_progress: called on the caller's thread.
        speculative: whether the configuration speculates; plain decoding has no accept length. ``None``: the server knows.
        problem_set: hash of the problems that earlier trials of the study answered; ``None`` for the first trial.
        clock: monotonic seconds.
        api_key: opens the server's API; written nowhere.
        model: name of the model; ``None`` is the first one that the server lists.
        fields: what requests may state to this server.
    """

    def __init__(
        self,
        url: str,
        settings: EvaluationSettings,
        records_path: Path,
        *,
        on_progress: OnProgress = lambda _what, _done, _of: None,
        speculative: bool | None = True,
        problem_set: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
        api_key: ApiKey | None = None,
        model: str | None = None,
        fields: ApiFields = _ALL_FIELDS,
    ) -> None:
        self._url = url
        self._settings = settings
        self._records_path = records_path
        self._on_progress = on_progress
        self._problem_set = problem_set
        self._clock = clock
        self._questions = Questions(
            url,
            settings,
            on_record=lambda done, of: on_progress("answers", done, of),
            speculative=speculative,
            api_key=api_key,
            model=model,
            fields=fields,
            clock=clock,
        )

    def run(self) -> EvaluationMeasurement:
        """Ask all problems, then judge the answers.

        Raises:
            ProblemSetChanged: the problems are not those that earlier trials answered; nothing was asked.
            SandboxUnavailable: generated code cannot be isolated here; nothing was asked.
            NothingSucceeded: not one problem was answered.
            TooManyFailures: so few problems were answered that the score would be that of a selection.
            SettingsError: more problems are asked for than exist, or the file of problems cannot be read.
            OSError: the records cannot be written.
        """
        started_s = self._clock()
        sandbox = Sandbox(
            self._settings.time_limit_s,
            self._settings.memory_limit_mb << 20,
            accept_gaps=self._settings.isolation != "required",
        )
        layers = sandbox.check()
        problems = choose_problems(self._settings, sandbox)
        problem_set = hash_problems(problems)
        if self._problem_set is not None and self._problem_set != problem_set:
            raise ProblemSetChanged(
                f"the coding problems are {problem_set} and earlier trials answered {self._problem_set}",
                where="coding evaluation",
                hint="install the version that began the study, or begin a new study",
            )
        with RecordFile(self._records_path) as file:
            answers = run(self._questions.ask(problems, problem_set, file))
            sanity = look_at_text(answers.records)
            file.append({"type": "text", **dataclasses.asdict(sanity)})
            self._check_answered(answers)
            results = judge_answers(
                problems,
                answers.records,
                sandbox,
                file,
                thinks=self._settings.sampling.thinking is True,
                on_verdict=lambda done, of: self._on_progress("verdicts", done, of),
            )
            gaps = [layer for layer in DEMANDED if layer not in layers]
            notes = (
                *render_sanity(sanity),
                *render_notes(results),
                *answers.notes,
                *((f"generated code ran without {', '.join(gaps)}, as the settings allow",) if gaps else ()),
            )
            measurement = self._measure(results, problem_set, answers, notes, started_s)
            file.append(
                {
                    "type": "evaluated",
                    "layers": layers,
                    "truncated_share": truncated_share(results),
                    **{
                        name: value
                        for name, value in dataclasses.asdict(measurement).items()
                        if name not in ("results", "problem_set")
                    },
                }
            )
        return measurement

    def _measure(
        self,
        results: tuple[ProblemResult, ...],
        problem_set: str,
        answers: Answers,
        notes: tuple[str, ...],
        started_s: float,
    ) -> EvaluationMeasurement:
        pass_at_1 = score_pass_at_1(results)
        if pass_at_1 is None:
            raise NothingSucceeded("not one coding problem was answered", where=self._url)
        samples = self._settings.samples
        return EvaluationMeasurement(
            results=results,
            problem_set=problem_set,
            pass_at_1=pass_at_1,
            tokens_per_s=measure_speed(answers.records, answers.duration_s),
            accept_length=answers.accept_length.value if answers.accept_length is not None else None,
            duration_s=self._clock() - started_s,
            pass_at_k=score_pass_at_k(results, samples) if samples > 1 else None,
            cell=answers.cell,
            notes=notes,
        )

    def _check_answered(self, answers: Answers) -> None:
        records = answers.records
        answered = sum(record.is_ok for record in records)
        if answered >= _FEWEST_ANSWERED * len(records):
            return
        reason = next(record.error for record in records if not record.is_ok)
        what = "coding problems were answered" if self._settings.samples == 1 else "answers to coding problems came"
        error = TooManyFailures if answered else NothingSucceeded
        is_late = sum(record.outcome is Outcome.TIMED_OUT for record in records) > (len(records) - answered) / 2
        raise error(
            f"{answered} of {len(records)} {what}; the first failure: {reason}",
            where=self._url,
            hint="allow more time for all answers (answers_limit_s, --limit), or ask for fewer or shorter ones"
            if is_late
            else advise(reason or ""),
        )
