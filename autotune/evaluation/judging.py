"""Which answers pass? Code is taken from each, run in the sandbox, and every verdict has a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.benchmark.record_file import RecordFile
from autotune.benchmark.request_record import RequestRecord
from autotune.evaluation.extract import Extraction, extract_code
from autotune.evaluation.problem import Problem
from autotune.evaluation.sandbox import Sandbox
from autotune.trial import ProblemResult, Verdict


def judge_answers(
    problems: Sequence[Problem],
    records: Sequence[RequestRecord],
    sandbox: Sandbox,
    file: RecordFile,
    *,
    thinks: bool,
    on_verdict: Callable[[int, int], None],
) -> tuple[ProblemResult, ...]:
    """Judge all answers, and write a verdict line for each with the code that was judged.

    Args:
        problems: in their order.
        records: all first answers in that order, then all second ones, and so on.
        sandbox: runs the programs.
        file: gets the lines.
        thinks: the prompt itself opened the reasoning.
        on_verdict: called with the number of verdicts so far and of all.

    Returns:
        One result per answer, the answers to one problem together.
    """
    asked = [(problems[index % len(problems)], record) for index, record in enumerate(records)]
    extractions = [extract_answer(problem, record, thinks) for problem, record in asked]
    places = [
        index for index, extraction in enumerate(extractions) if extraction is not None and extraction.code is not None
    ]
    programs = [(asked[index][0], _code(extractions[index])) for index in places]
    count_unjudged = len(asked) - len(places)
    results: dict[int, ProblemResult] = {
        index: explain_unjudged(problem, record, extraction)
        for index, ((problem, record), extraction) in enumerate(zip(asked, extractions, strict=True))
        if index not in set(places)
    }
    if count_unjudged:
        on_verdict(count_unjudged, len(asked))
    for number, (index, result) in enumerate(zip(places, sandbox.judge_all(programs), strict=True), 1):
        results[index] = replace(result, sample=asked[index][1].repeat)
        on_verdict(count_unjudged + number, len(asked))
    for index in range(len(asked)):
        result, extraction = results[index], extractions[index]
        file.append(
            {
                "type": "verdict",
                "problem": result.problem,
                "sample": result.sample,
                "verdict": result.verdict.value,
                "reason": result.reason,
                "rule": extraction.rule.value if extraction is not None else None,
                "code": extraction.code if extraction is not None else None,
            }
        )
    order = {problem.name: place for place, problem in enumerate(problems)}
    return tuple(sorted(results.values(), key=lambda result: (order[result.problem], result.sample)))


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
    """Say why an answer was not run."""
    if extraction is None:
        reason = record.error or record.outcome.value
        return ProblemResult(problem.name, Verdict.NO_ANSWER, reason, record.repeat)
    verdict = Verdict.TRUNCATED if extraction.rule.is_truncated else Verdict.NO_CODE
    return ProblemResult(problem.name, verdict, extraction.rule.value, record.repeat)


def _code(extraction: Extraction | None) -> str:
    return "" if extraction is None or extraction.code is None else extraction.code
