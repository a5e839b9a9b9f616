"""What one trial is: its lifecycle, its configuration and its measured figures, as frozen records.

::

    SUGGESTED -> DEPLOYING -> MEASURING -> COMPLETE
                     |            |
                     |            +-> PRUNED       could not reach the front any more; its cells are kept
                     +------------+-> INFEASIBLE   this configuration cannot work: never retried
                     +------------+-> FAILED       the host's fault or unexplained: may be tried again
                     +------------+-> INTERRUPTED  found open when the study was resumed
    SUGGESTED -> DUPLICATE                         answered from history, nothing was measured

FAILED and INFEASIBLE are the pair to keep apart: INFEASIBLE is a fact about the configuration, from which the
sampler learns; FAILED says nothing about the configuration, and the sampler must not learn from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

ParameterValue = int | float | str | bool | None
"""One value of one parameter. ``None`` is the value *none*: the parameter is switched off."""

Configuration = Mapping[str, ParameterValue]
"""A complete assignment of parameters by name, in the order of the search space."""


class TrialState(Enum):
    """Where a trial is in its life; the diagram is in the module's docstring."""

    SUGGESTED = "suggested"
    """Proposed, nothing deployed yet."""
    DEPLOYING = "deploying"
    """The server is being stopped, reconfigured, started or waited for."""
    MEASURING = "measuring"
    """The server is ready and cells are being measured."""
    COMPLETE = "complete"
    """Every stage was measured."""
    PRUNED = "pruned"
    """Stopped after a stage because it could no longer reach the front; its cells are kept."""
    INFEASIBLE = "infeasible"
    """The configuration cannot work or misses a constraint."""
    FAILED = "failed"
    """The machine failed, or nobody knows why: the configuration is not blamed."""
    DUPLICATE = "duplicate"
    """The same effective configuration was measured before; it was not booted, or the boot showed it."""
    INTERRUPTED = "interrupted"
    """Found open when the study was resumed."""

    @property
    def is_final(self) -> bool:
        """True once the trial can no longer change."""
        return self not in (TrialState.SUGGESTED, TrialState.DEPLOYING, TrialState.MEASURING)

    @property
    def counts(self) -> bool:
        """True for the states that use up one of ``--trials``: complete, pruned, infeasible."""
        return self in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.INFEASIBLE)


class TrialKind(Enum):
    """Why a trial was booted."""

    BASELINE = "baseline"
    """The configuration found on the host, or a repeat of it; never counted."""
    LISTED = "listed"
    """Named by the user with ``--try`` or ``[[try]]``."""
    SEARCH = "search"
    """Proposed by the sampler."""
    PROFILE = "profile"
    """Booted to log what the drafter proposes; nothing of it is a speed, and it is never counted."""
    CONFIRMATION = "confirmation"
    """A leader or the baseline booted again, to see whether a gain is real; never counted."""

    @property
    def counts(self) -> bool:
        """True for the kinds that use up one of ``--trials``: listed and proposed."""
        return self in (TrialKind.LISTED, TrialKind.SEARCH)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number with its count and its 95 % interval; unknown bounds are ``None``.

    Attributes:
        value: the point estimate, in the unit that the field's name states.
        count: how many observations it rests on.
        low: lower bound of the 95 % interval.
        high: upper bound of the 95 % interval.
    """

    value: float
    count: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One context length (prompt tokens) at one concurrency (requests in flight)."""

    context: int
    concurrency: int

    @property
    def name(self) -> str:
        """Short name used in files and displays, for example ``ctx512-c32``."""
        return f"ctx{self.context}-c{self.concurrency}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a quantity is spread: percentiles by nearest rank.

    Attributes:
        count: values.
        mean: their mean.
        p50: half of them are not larger; the others likewise.
        p90: see ``p50``.
        p95: see ``p50``.
        p99: see ``p50``.
        largest: the largest.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """How times are spread in one cell; ``None`` is unknown.

    Attributes:
        ttft_s: time to the first token, over requests.
        tpot_s: time per output token after the first, over requests.
        itl_s: time between tokens, over tokens: the gap before a chunk shared out among its tokens.
        chunk_gap_s: gaps between chunks, which is what a reader sees stall.
        request_s: from sending to the last token, over requests.
        decode_tokens_per_s: of one request, over requests.
    """

    ttft_s: Distribution | None = None
    tpot_s: Distribution | None = None
    itl_s: Distribution | None = None
    chunk_gap_s: Distribution | None = None
    request_s: Distribution | None = None
    decode_tokens_per_s: Distribution | None = None


@dataclass(frozen=True, slots=True)
class BootSpeed:
    """What one boot measured of a cell that is pooled over boots.

    Attributes:
        trial: number of the trial.
        log_speed: log of its decode tokens/s.
        per_prompt_log_speed: as in :class:`CellMeasurement`.
    """

    trial: int
    log_speed: float
    per_prompt_log_speed: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CellMeasurement:
    """What one cell of one boot measured. Speeds are tokens per second over all streams of the cell.

    Attributes:
        cell: which cell.
        requests: requests sent inside the measured window.
        succeeded: requests that ended ok.
        output_tokens: tokens generated by the successful requests, by the server's usage.
        prompt_tokens: prompt tokens of the successful requests, by the server's usage.
        cached_tokens: prompt tokens served from a prefix cache; ``None`` when not reported.
        decode_tokens_per_s: the tuning figure: decode-only tokens/s (see ``docs/metrics.md``).
        total_tokens_per_s: output tokens over the wall time of the whole cell, prefill included.
        ttft_s: time to the first token, mean over requests; ``None`` when nothing was streamed.
        tpot_s: time per output token after the first, mean over requests.
        accept_length: tokens per verify step, bonus token included; ``None`` when speculation is off or unknown.
        per_prompt_log_speed: prompt id -> mean log of that prompt's decode tokens/s, for paired comparison.
        duration_s: wall time of the measured window.
        notes: sentences the user should see.
        foreign: how it was seen that others used the server meanwhile; ``None`` when nothing was seen.
        step_time_s: time of one step (draft, verify) of one stream: accept length over its speed; ``None`` when unknown.
        boots: what each boot measured, where this is pooled over boots; empty for one boot.
        latencies: how times are spread over requests and tokens.
        prefill_tokens_per_s: prompt tokens computed, over the time in which a request waited for its first token.
        round_log_speeds: log of the decode tokens/s of each round, all with the same prompts; empty when there was one.
        accepted_histogram: how many steps of its warm-up accepted 0, 1, 2 ... drafted tokens; empty when not known.
    """

    cell: Cell
    requests: int
    succeeded: int
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int | None
    decode_tokens_per_s: Figure
    total_tokens_per_s: Figure
    ttft_s: Figure | None
    tpot_s: Figure | None
    accept_length: Figure | None
    per_prompt_log_speed: Mapping[str, float]
    duration_s: float
    notes: tuple[str, ...] = ()
    foreign: str | None = None
    step_time_s: Figure | None = None
    boots: tuple[BootSpeed, ...] = ()
    latencies: Latencies | None = None
    prefill_tokens_per_s: Figure | None = None
    round_log_speeds: tuple[float, ...] = ()
    accepted_histogram: tuple[int, ...] = ()


class Verdict(Enum):
    """How one coding problem was judged."""

    PASSED = "passed"
    """Every hidden test passed."""
    WRONG = "wrong"
    """The code ran and a test failed."""
    ERROR = "error"
    """The code raised, or did not compile."""
    TIMED_OUT = "timed out"
    """The time limit ended the run."""
    NO_CODE = "no code"
    """The answer holds no code that defines the required name."""
    TRUNCATED = "truncated"
    """The answer was cut off by the token limit; its code is never run."""
    NO_ANSWER = "no answer"
    """The request itself failed."""


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """Verdict of one answer with the sentence that explains it; ``reason`` is untrusted text.

    ``sample`` counts the answers to one problem, from 0.
    """

    problem: str
    verdict: Verdict
    reason: str = ""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationMeasurement:
    """The coding evaluation of one boot.

    Attributes:
        results: one per answer, in the order of the problem set, the answers to one problem together.
        problem_set: hash of the problems asked, so that trials can be compared.
        pass_at_1: share of answers that passed, with its interval.
        tokens_per_s: output tokens/s over the coding answers; ``None`` when unknown.
        accept_length: over the coding answers; ``None`` when speculation is off or unknown.
        duration_s: wall time, answers and judging.
        pass_at_k: share of problems of which at least one of all their answers passed; ``None`` with one answer each.
        cell: speed while the problems were answered, as any cell is measured; ``None`` when it could not be.
        notes: sentences the user should see, what is odd about the answers' text first.
    """

    results: tuple[ProblemResult, ...]
    problem_set: str
    pass_at_1: Figure
    tokens_per_s: float | None
    accept_length: float | None
    duration_s: float
    pass_at_k: Figure | None = None
    cell: CellMeasurement | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BootRecord:
    """Proof of what was running: one start of the server with one configuration.

    Attributes:
        pid: process id of the server.
        command: the argument vector it was started with.
        environment: only the variables that the configuration set.
        effective_flags: what the server says it is running with.
        ready_after_s: from start to the first checked generation; ``None`` when it was reused as found.
        reused: True when a server already running this configuration was measured as it was.
        version: what the server calls its version; ``None`` when it does not say.
        stopped_after_s: time it took to stop the server before it; ``None`` when none had to be stopped.
        free_memory_gb: what it left free on the fullest device once it was loaded; ``None`` when it does not say.
    """

    pid: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    effective_flags: Mapping[str, ParameterValue]
    ready_after_s: float | None
    reused: bool = False
    version: str | None = None
    stopped_after_s: float | None = None
    free_memory_gb: float | None = None


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """What one GPU did while a boot was measured; ``None`` is not told.

    Attributes:
        gpu: tells GPUs apart.
        name: what people call it.
        samples: moments at which it was looked at.
        clock_mhz: of its multiprocessors, mean.
        power_w: drawn, mean.
        hottest_c: highest temperature of the chip.
        slowed: for each reason that lowered its clock, the share of samples in which it did.
    """

    gpu: str
    name: str
    samples: int
    clock_mhz: float | None
    power_w: float | None
    hottest_c: float | None
    slowed: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class BootCondition:
    """In which condition the machine was while a boot was measured.

    Attributes:
        canaries: prompt tokens per second of fixed prompts, one after the other: before the first cell, then after the last.
        gpus: what its GPUs did.
    """

    canaries: tuple[Figure, ...] = ()
    gpus: tuple[GpuActivity, ...] = ()


@dataclass(frozen=True, slots=True)
class Objectives:
    """The three objectives, all maximised; ``None`` is unknown. Speeds are weighted geometric means over contexts."""

    tokens_per_s_c1: Figure | None
    tokens_per_s_c32: Figure | None
    pass_at_1: Figure | None


@dataclass(frozen=True, slots=True)
class ConfirmationBoot:
    """Which boot of which confirmation a trial is; what was planned is stored with each, so that nothing else has to be.

    Attributes:
        confirmation: number of the confirmation in the study, from 0.
        leaders: numbers of the trials that are compared with the baseline, the recommended one first.
        rounds: planned; each boots the baseline and every leader once.
        alpha: chance that a leader without any gain is confirmed, over all leaders and looks together.
        rule: of the study when it was planned: what is compared.
        round: of this boot, from 0.
        leader: that was booted; ``None``: the baseline.
        is_soak: it was only loaded for a long time, and says nothing about speed.
    """

    confirmation: int
    leaders: tuple[int, ...]
    rounds: int
    alpha: float
    rule: str
    round: int
    leader: int | None
    is_soak: bool = False


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """Everything known about one trial; only ``study.py`` makes new ones.

    Attributes:
        number: Optuna's trial number, in order of creation.
        kind: why it was booted.
        state: where it is in its life.
        configuration: canonical form of what was asked for.
        reason: one sentence: why it was pruned, infeasible, failed, or of what it is a duplicate.
        cells: finished cells in the order they were measured.
        evaluation: the coding evaluation; ``None`` until it has run.
        objectives: what is known of the three objectives.
        boot: proof of what was running; ``None`` until the server was ready.
        condition: of the machine meanwhile; ``None`` until it was looked at.
        started_at: UTC, ISO 8601; ``None`` until deployed.
        ended_at: UTC, ISO 8601; ``None`` while open.
        duration_s: wall time from deployment to the end; ``None`` while open.
        attributes: anything else that was stored with the trial (sampling, seeds, notes).
        confirmation: which boot of a confirmation it is; ``None`` for every other kind.
    """

    number: int
    kind: TrialKind
    state: TrialState
    configuration: Configuration
    reason: str | None = None
    cells: tuple[CellMeasurement, ...] = ()
    evaluation: EvaluationMeasurement | None = None
    objectives: Objectives = field(default_factory=lambda: Objectives(None, None, None))
    boot: BootRecord | None = None
    condition: BootCondition | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_s: float | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)
    confirmation: ConfirmationBoot | None = None

    @property
    def is_counted(self) -> bool:
        """True for a trial that used up one of ``--trials``."""
        return self.kind.counts and self.state.counts

    @property
    def is_soak(self) -> bool:
        """True for a leader that was only loaded for a long time: its figures are no speed of the study."""
        return self.confirmation is not None and self.confirmation.is_soak
