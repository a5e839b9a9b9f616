"""What is to be expected of a night: when it ends, how many trials fit, and which gain it can prove?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from autotune.benchmark.benchmark import CANARY_REQUESTS, CANARY_TOKENS
from autotune.confirmation.due import find_due
from autotune.doctor.finding import Judgement, ok, warning
from autotune.eta import Durations, learn_durations
from autotune.evaluation.problem_source import count_problems
from autotune.export.findings import Noise, smallest_gain
from autotune.export.wording import can_prove, render_count, render_duration
from autotune.interval import ASSUMED_SPREAD
from autotune.servers.sglang import can_log_drafts
from autotune.settings import BenchmarkSettings, CellSettings, StudySettings
from autotune.suggestion import is_profile_due
from autotune.trial import TrialKind, TrialRecord, TrialState
from autotune.tuner.limits import Limits
from autotune.tuner.timekeeper import BASELINE_BOOTS, SHARE_FOR_CONFIRMATION

ASSUMED_TOKENS_PER_S: Final = 30.0
"""Decode speed of one request, while none was measured."""

ASSUMED_PREFILL_TOKENS_PER_S: Final = 5000.0
"""Prompt tokens per second of the whole server, while none were measured."""

_FEWEST_REQUESTS: Final = 4
_CANARIES: Final = 2
"""Of one boot: before its cells, and after them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A time in seconds, and what it is known from."""

    seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a command with these limits will take.

    Attributes:
        load: from the start of a server to its first generation.
        measuring: one trial after that, cells and coding evaluation.
        counted: trials that are counted already.
        trials: how many trials are left to run; ``None`` when only time ends the night.
        fitting: how many trials fit into the time there is; ``None`` without a time limit.
        total_s: all boots, all trials and the restore; ``None`` when only time ends the night.
        end: when the server serves as found again; ``None`` when nothing says.
        latest_start: the latest moment at which these trials can begin and still be back in time.
        confirmation_boots: boots of a confirmation after the search, at most.
        profiles: boots that log drafts, 0 or 1.
    """

    load: Estimate
    measuring: Estimate
    counted: int
    trials: int | None
    fitting: int | None
    total_s: float | None
    end: datetime | None
    latest_start: datetime | None
    confirmation_boots: int = 0
    profiles: int = 0


def expect(
    settings: StudySettings,
    limits: Limits,
    trials: Sequence[TrialRecord],
    *,
    journal_load_s: float | None,
    now: datetime,
) -> Expectation:
    """Estimate a night: boots times loading plus measuring, those of a confirmation and its soak too, then the restore.

    A profile, where one is due, is taken to last as long as a trial, which is more than it does: it measures fewer cells.

    Times of this study's own trials come first; else the load time that the journal shows of the server that runs now;
    else the settings, which bound it.

    Args:
        settings: the study.
        limits: when the command is to end.
        trials: what is stored.
        journal_load_s: load time of the server that runs, in seconds.
        now: with a time zone.
    """
    known = learn_durations(trials)
    load = _estimate_load(known, journal_load_s, settings)
    measuring = _estimate_measuring(known, load.seconds, settings)
    trial_s = load.seconds + measuring.seconds
    counted = sum(trial.is_counted for trial in trials)
    baselines = count_baselines(trials)
    left = None if limits.trials is None else max(limits.trials - counted, 0)
    baselines_left = max(BASELINE_BOOTS - baselines, 0) if left is None or left > 1 else max(1 - baselines, 0)
    is_confirmed = left == 0 and find_due(trials, settings) is None
    boots = 0 if is_confirmed else settings.confirmation_boots
    confirming_s = boots * trial_s + (settings.soak_s if boots else 0.0)
    profiles = int(left != 0 and can_log_drafts(settings) and is_profile_due(trials, settings))
    total_s = None if left is None else (left + baselines_left + profiles) * trial_s + confirming_s + load.seconds
    time_s = limits.left_s(0.0, now)
    fitting = None
    if time_s is not None:
        kept_s = min(confirming_s, SHARE_FOR_CONFIRMATION * time_s)
        fitting = max(math.floor((time_s - load.seconds - (baselines_left + profiles) * trial_s - kept_s) / trial_s), 0)
    ends = [seconds for seconds in (total_s, time_s) if seconds is not None]
    needed_s = (1 + baselines_left + profiles) * trial_s + load.seconds if total_s is None else total_s
    return Expectation(
        load=load,
        measuring=measuring,
        counted=counted,
        trials=left,
        fitting=fitting,
        total_s=total_s,
        confirmation_boots=boots,
        profiles=profiles,
        end=now + timedelta(seconds=min(ends)) if ends else None,
        latest_start=None if limits.until is None else limits.until.astimezone() - timedelta(seconds=needed_s),
    )


def count_baselines(trials: Sequence[TrialRecord]) -> int:
    """Return how many boots of the baseline are complete."""
    return sum(trial.kind is TrialKind.BASELINE and trial.state is TrialState.COMPLETE for trial in trials)


def _estimate_load(known: Durations, journal_load_s: float | None, settings: StudySettings) -> Estimate:
    if known.boot_s is not None:
        return Estimate(known.boot_s, "seen in this study")
    if journal_load_s is not None:
        return Estimate(journal_load_s, "of the server that runs now, by its journal")
    return Estimate(settings.server.ready_timeout_s, "at most, by server.ready_timeout_s")


def _estimate_measuring(known: Durations, load_s: float, settings: StudySettings) -> Estimate:
    trial_s = known.trial_s if known.trial_s is not None else known.baseline_s
    if trial_s is not None and trial_s > load_s:
        return Estimate(trial_s - load_s, "seen in this study")
    return Estimate(assume_measuring_s(settings), f"assuming {ASSUMED_TOKENS_PER_S:.0f} tokens/s for each request")


def assume_measuring_s(settings: StudySettings) -> float:
    """Return how long canaries, cells and the coding evaluation of one trial take at assumed speeds, at most, in seconds.

    Requests of a cell come in waves as wide as its concurrency; the warm-up is one more wave. Every answer is taken to
    be as long as it may be, and every cell to be sent as often as it may be.
    """
    benchmark, evaluation = settings.benchmark, settings.evaluation
    cells = [cell for stage in benchmark.stages for cell in stage.cells]
    total_s = math.fsum(_assume_cell_s(cell, benchmark) for cell in cells)
    total_s += _CANARIES * _assume_canary_s(max(cell.context for cell in cells))
    if evaluation.enabled:
        answers = count_problems(evaluation) * evaluation.samples
        waves = math.ceil(answers / evaluation.concurrency)
        total_s += min(waves * evaluation.max_tokens / ASSUMED_TOKENS_PER_S, evaluation.answers_limit_s)
    return total_s


def _assume_cell_s(cell: CellSettings, benchmark: BenchmarkSettings) -> float:
    """A warm-up, and as many rounds as the limits allow."""
    requests = cell.requests or max(cell.concurrency, _FEWEST_REQUESTS)
    wave_s = benchmark.output_tokens / ASSUMED_TOKENS_PER_S
    prompt_s = cell.context / ASSUMED_PREFILL_TOKENS_PER_S
    round_s = benchmark.repeats * (math.ceil(requests / cell.concurrency) * wave_s + requests * prompt_s)
    rounds = max(1, min(benchmark.max_rounds, math.floor(benchmark.rounds_limit_s / round_s)))
    return wave_s + cell.concurrency * prompt_s + rounds * round_s


def _assume_canary_s(longest_context: int) -> float:
    prompt_s = min(CANARY_TOKENS, longest_context) / ASSUMED_PREFILL_TOKENS_PER_S
    return (1 + CANARY_REQUESTS) * (prompt_s + 1 / ASSUMED_TOKENS_PER_S)


def judge_end(expected: Expectation, limits: Limits) -> Judgement:
    """Say when the night ends, what that rests on, and whether what was asked for fits."""
    basis = (
        f"a load of {render_duration(expected.load.seconds)} ({expected.load.source}) and "
        f"{render_duration(expected.measuring.seconds)} of measuring ({expected.measuring.source})"
    )
    if expected.fitting is not None:
        fits = f"about {render_count(expected.fitting, 'trial')} fit until {limits.explain_time()}"
        if expected.fitting == 0:
            return warning(f"{fits}: a trial is {basis}", _say_latest(expected) or "allow more time")
        if expected.trials is not None and expected.fitting < expected.trials:
            return warning(
                f"{fits}, {expected.trials} were asked for: a trial is {basis}",
                _say_latest(expected) or "allow more time, or ask for fewer",
            )
        if expected.trials is None:
            latest = _say_latest(expected)
            return ok(f"{fits}: a trial is {basis}" + (f"; {latest}" if latest else ""))
    if expected.total_s is None or expected.end is None or expected.trials is None:
        return ok(f"it ends when every configuration was measured; a trial is {basis}")
    latest = _say_latest(expected)
    confirming = " and the profile" if expected.profiles else ""
    if expected.confirmation_boots:
        confirming += f" and {render_count(expected.confirmation_boots, 'boot')} to confirm what they find"
    return ok(
        f"{render_count(expected.trials, 'trial')}{confirming} take {render_duration(expected.total_s)}: a trial is {basis}"
        + (f"; {latest}" if latest else "")
    )


def _say_latest(expected: Expectation) -> str | None:
    if expected.latest_start is None:
        return None
    what = "one trial" if expected.trials is None else render_count(expected.trials, "trial")
    return f"for {what} start by {expected.latest_start:%a %H:%M}"


def count_candidates(expected: Expectation | None) -> int | None:
    """Return of how many trials the recommended one will be the best; ``None`` when nothing says how many there will be.

    Args:
        expected: what the night will take; ``None`` is unknown.
    """
    if expected is None:
        return None
    ahead = [count for count in (expected.trials, expected.fitting) if count is not None]
    return expected.counted + min(ahead) if ahead else None


def judge_gain(noise: Noise | None, baselines: int, candidates: int | None) -> Judgement:
    """Say the smallest gain that can be proven.

    With spread *s* (standard deviation of the log speed between boots) and *n* boots of the baseline, a single boot of
    another configuration that was named before is beyond the noise, at 95 %, when its gain exceeds

        exp(t(n - 1) * s * sqrt(1 + 1 / n)) - 1

    where *t* is Student's two-sided quantile; of the best of many trials more is asked (docs/metrics.md). Until three
    boots of the baseline have shown *s*, it is assumed.

    Args:
        noise: what stored boots show; ``None`` with fewer than two.
        baselines: complete boots of the baseline so far.
        candidates: of how many trials the recommended one will be the best; ``None`` is unknown.
    """
    if noise is not None and noise.smallest_gain is not None:
        gain = smallest_gain(noise.boots, noise.spread, candidates or 1)
        if not can_prove(gain):
            chosen = f" of the best of {candidates} trials" if can_prove(noise.smallest_gain) else ""
            return warning(
                f"{noise.boots} boots of the baseline differ so much that no gain{chosen} can be proven",
                "see that nothing else uses the machine, and measure more in each cell: benchmark.repeats",
            )
        named = f"{100 * noise.smallest_gain:.1f} % for a configuration that is named before"
        return ok(f"{_say_gain(gain, named, candidates, 1)}, by {noise.boots} boots of the baseline")
    boots = max(BASELINE_BOOTS, baselines)
    named = f"{100 * smallest_gain(boots, ASSUMED_SPREAD):.0f} % for a configuration that is named before"
    return ok(
        f"{_say_gain(smallest_gain(boots, ASSUMED_SPREAD, candidates or 1), named, candidates, 0)}, assuming that boots "
        f"differ by {100 * ASSUMED_SPREAD:.0f} % and that the baseline is booted {boots} times; the study itself will show "
        "how they differ"
    )


def _say_gain(gain: float, named: str, candidates: int | None, digits: int) -> str:
    begin = "the smallest gain that one boot can prove is"
    if candidates is None or candidates < 2:
        return f"{begin} {named}, and more for the best of several"
    return f"{begin} {100 * gain:.{digits}f} % for the best of {candidates} trials, {named}"
