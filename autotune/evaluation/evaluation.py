"""How well does one boot answer the coding problems? Asks for all answers, then judges them, nothing else running."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from autotune.api_key import ApiKey
from autotune.benchmark.accept_length import Reading, choose_accept_length, read_counters
from autotune.benchmark.client import ChatClient, ChatRequest, RequestLimits, render_request
from autotune.benchmark.event_loop import run
from autotune.benchmark.load import run_closed_loop
from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.server_probe import Flush, ServerProbe
from autotune.errors import NothingSucceeded, ProblemSetChanged, TooManyFailures
from autotune.evaluation.extract import Extraction, extract_code
from autotune.evaluation.problem import Problem, hash_problems, load_problems
from autotune.evaluation.sandbox import Sandbox
from autotune.evaluation.scoring import render_notes, truncated_share
from autotune.pass_rate import score_pass_at_1
from autotune.servers.server_metrics import subtract
from autotune.settings import EvaluationSettings
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

_LIMITS = RequestLimits(connect_s=10.0, first_token_s=300.0, gap_s=120.0, request_s=1800.0)
_PROBE_TIMEOUT_S = 10.0
_FEWEST_ANSWERED = 0.9
"""With a smaller share of answers, pass@1 would be that of a selection."""

OnProgress = Callable[[str, int, int], None]
"""Receives what is counted (``answers`` or ``verdicts``), how many there are, and of how many."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the server gave: one record per problem, the wall time and the accept length over all of them."""

    records: tuple[RequestRecord, ...]
    duration_s: float
    accept_length: Figure | None


class Evaluation:
    """Evaluates one boot of one server.

    Args:
        url: base URL of the server, plain ``http://``.
        settings: how many problems are asked and how.
        records_path: JSON lines: an ``evaluation`` line with everything that was stated, a ``request`` line as each
            answer ends, a ``verdict`` line per problem with the code that was judged, and an ``evaluated`` line.
        on_progress: called on the caller's thread.
        speculative: whether the configuration speculates; plain decoding has no accept length.
        problem_set: hash of the problems that earlier trials of the study answered; ``None`` for the first trial.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        settings: EvaluationSettings,
        records_path: Path,
        *,
        on_progress: OnProgress = lambda _what, _done, _of: None,
        speculative: bool = True,
        problem_set: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
        api_key: ApiKey | None = None,
    ) -> None:
        self._url = url
        self._settings = settings
        self._records_path = records_path
        self._on_progress = on_progress
        self._speculative = speculative
        self._problem_set = problem_set
        self._clock = clock
        self._api_key = api_key

    def run(self) -> EvaluationMeasurement:
        """Ask all problems, then judge the answers.

        Raises:
            ProblemSetChanged: the problems are not those that earlier trials answered; nothing was asked.
            SandboxUnavailable: generated code cannot be isolated here; nothing was asked.
            NothingSucceeded: not one problem was answered.
            TooManyFailures: so few problems were answered that the score would be that of a selection.
            SettingsError: more problems are asked for than exist.
            OSError: the records cannot be written.
        """
        started_s = self._clock()
        problems = load_problems(self._settings.problems)
        problem_set = hash_problems(problems)
        if self._problem_set is not None and self._problem_set != problem_set:
            raise ProblemSetChanged(
                f"the coding problems are {problem_set} and earlier trials answered {self._problem_set}",
                where="coding evaluation",
                hint="install the version that began the study, or begin a new study",
            )
        sandbox = Sandbox(self._settings.time_limit_s, self._settings.memory_limit_mb << 20)
        sandbox.check()
        with RecordFile(self._records_path) as file:
            answers = run(self._ask(problems, problem_set, file))
            self._check_answered(answers.records)
            results = self._judge(problems, answers.records, sandbox, file)
            pass_at_1 = score_pass_at_1(results)
            if pass_at_1 is None:
                raise NothingSucceeded("not one coding problem was answered", where=self._url)
            measurement = EvaluationMeasurement(
                results=tuple(results),
                problem_set=problem_set,
                pass_at_1=pass_at_1,
                tokens_per_s=measure_speed(answers.records, answers.duration_s),
                accept_length=answers.accept_length.value if answers.accept_length is not None else None,
                duration_s=self._clock() - started_s,
            )
            file.append(
                {
                    "type": "evaluated",
                    "truncated_share": truncated_share(results),
                    "notes": render_notes(results),
                    "pass_at_1": dataclasses.asdict(pass_at_1),
                    "tokens_per_s": measurement.tokens_per_s,
                    "accept_length": measurement.accept_length,
                    "duration_s": measurement.duration_s,
                }
            )
        return measurement

    async def _ask(self, problems: Sequence[Problem], problem_set: str, file: RecordFile) -> _Answers:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                ChatClient(self._url, _LIMITS, clock=self._clock, api_key=self._api_key)
            )
            probe = await stack.enter_async_context(ServerProbe(self._url, _PROBE_TIMEOUT_S, api_key=self._api_key))
            model = await probe.fetch_model()
            requests = [self._render(model, index, problem) for index, problem in enumerate(problems)]
            flush = await probe.flush_cache()
            file.append(
                {
                    "type": "evaluation",
                    "problem_set": problem_set,
                    "model": model,
                    "cache": flush.value,
                    "settings": self._settings.model_dump(mode="json"),
                }
            )
            before = await probe.fetch_metrics()
            done = 0

            def take(record: RequestRecord) -> None:
                nonlocal done
                done += 1
                file.append(record.to_json())
                self._on_progress("answers", done, len(requests))

            records = tuple(await run_closed_loop(client.ask, requests, self._settings.concurrency, take))
            after = await probe.fetch_metrics()
            average = await probe.fetch_accept_length() if flush is Flush.DONE else None
        duration_s = max(record.ended_at_s for record in records) - min(record.sent_at_s for record in records)
        return _Answers(records, duration_s, self._choose_accept_length(records, before, after, average))

    def _render(self, model: str, index: int, problem: Problem) -> ChatRequest:
        """Make the request of one problem; its seed is the same in every trial."""
        return render_request(
            prompt_id=problem.entry_point,
            repeat=0,
            model=model,
            messages=(("user", problem.prompt),),
            sampling=self._settings.sampling,
            seed=self._settings.sampling.seed + index,
            max_tokens=self._settings.max_tokens,
            ignore_eos=False,
        )

    def _choose_accept_length(
        self,
        records: Sequence[RequestRecord],
        before: Mapping[str, float] | None,
        after: Mapping[str, float] | None,
        average: float | None,
    ) -> Figure | None:
        counters = Reading("/metrics", None)
        if before is not None and after is not None:
            received = sum(record.output_tokens or 0 for record in records)
            counters = read_counters(subtract(before, after), received, len(records))
        figure, _ = choose_accept_length([counters, Reading("/server_info", average)], speculative=self._speculative)
        return figure

    def _check_answered(self, records: Sequence[RequestRecord]) -> None:
        answered = sum(record.is_ok for record in records)
        if answered >= _FEWEST_ANSWERED * len(records):
            return
        reason = next(record.error for record in records if not record.is_ok)
        error = TooManyFailures if answered else NothingSucceeded
        raise error(
            f"{answered} of {len(records)} coding problems were answered; the first failure: {reason}",
            where=self._url,
            hint="see the server's log",
        )

    def _judge(
        self, problems: Sequence[Problem], records: Sequence[RequestRecord], sandbox: Sandbox, file: RecordFile
    ) -> list[ProblemResult]:
        thinks = self._settings.sampling.thinking is True
        extractions = [
            extract_answer(problem, record, thinks) for problem, record in zip(problems, records, strict=True)
        ]
        programs = [
            (problem, extraction.code)
            for problem, extraction in zip(problems, extractions, strict=True)
            if extraction is not None and extraction.code is not None
        ]
        judged = {result.problem: result for result in sandbox.judge_all(programs)}
        results = []
        for problem, record, extraction in zip(problems, records, extractions, strict=True):
            result = judged.get(problem.entry_point) or explain_unjudged(problem, record, extraction)
            results.append(result)
            file.append(
                {
                    "type": "verdict",
                    "problem": problem.entry_point,
                    "verdict": result.verdict.value,
                    "reason": result.reason,
                    "rule": extraction.rule.value if extraction is not None else None,
                    "code": extraction.code if extraction is not None else None,
                }
            )
            self._on_progress("verdicts", len(results), len(problems))
        return results


def extract_answer(problem: Problem, record: RequestRecord, thinks: bool) -> Extraction | None:
    """Choose the code of one answer; ``None`` when there is no whole answer to look at."""
    if not record.is_ok:
        return None
    return extract_code(
        record.text,
        problem.entry_point,
        reasoning=record.reasoning,
        finish_reason=record.finish_reason,
        thinks=thinks,
    )


def explain_unjudged(problem: Problem, record: RequestRecord, extraction: Extraction | None) -> ProblemResult:
    """Say why a problem's answer was not run."""
    if extraction is None:
        return ProblemResult(problem.entry_point, Verdict.NO_ANSWER, record.error or record.outcome.value)
    verdict = Verdict.TRUNCATED if extraction.rule.is_truncated else Verdict.NO_CODE
    return ProblemResult(problem.entry_point, verdict, extraction.rule.value)


def measure_speed(records: Sequence[RequestRecord], duration_s: float) -> float | None:
    """Return output tokens/s over the whole answers, prefill included; ``None`` when one of them was not counted rightly."""
    counts = [None if record.exceeds_limit else record.output_tokens for record in records if record.is_ok]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts) or duration_s <= 0:
        return None
    return sum(known) / duration_s
