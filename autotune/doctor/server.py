"""Is the server that answers the baseline of the study, can it be measured, and does anybody else use it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from autotune.api_key import USUAL_VARIABLE, ApiKey, read_api_key
from autotune.deployment.data_path import MOST_COST, PathMeasurement, PathVerdict, judge_cost, measure_path, path_cost
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, Level, ok, problem, skipped, warning
from autotune.errors import BaselineError, MeasurementError, UserError
from autotune.found_configuration import find_flag
from autotune.search_space import SearchSpace
from autotune.servers.base import Phase, Probe, ServerDialect
from autotune.settings import StudySettings
from autotune.trial import ParameterValue

Effective = Mapping[str, ParameterValue]

FAST_TOKENS_PER_S: Final = 100.0
"""Decode speed of one request on a fast server: the faster, the more the way to it counts."""

_KEY_FLAG: Final = "--api-key"
_STREAM: Final = (
    "/generate",
    b'{"text": "def add(a, b):", "stream": true, "sampling_params": {"temperature": 0.0, "max_new_tokens": 32}}',
)
_RUNNING_LIMITS: Final = ("max_running_requests",)
_GRAPH_LIMITS: Final = ("cuda_graph_max_bs_decode", "cuda_graph_max_bs")
_THRESHOLDS: Final = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def examine_server(
    exam: Examination,
    settings: StudySettings,
    space: SearchSpace | None,
    dialect: ServerDialect | None,
    url: str,
    read_environment: Callable[[], Mapping[str, str]],
) -> None:
    """Ask the server that runs.

    Args:
        exam: where findings go.
        settings: the study.
        space: its search space; ``None`` when it is wrong.
        dialect: how the server is asked; ``None`` when the study does not say so.
        url: its address.
        read_environment: returns the variables its process was started with.
    """
    if dialect is None or space is None:
        exam.skip_rest(Area.SERVER, "needs search space" if space is None else "needs flags")
        return
    known = space
    key = read_api_key(settings.server.api_key_variable)
    exam.ask("traffic", lambda: dialect.count_requests(url), judge_traffic)
    request_s = assume_request_s(settings)
    is_here = settings.deployment.host is None
    path = exam.ask(
        "data path",
        lambda: measure_path(url, generation=_STREAM, headers=key.headers if key else {}),
        lambda measured: judge_path(measured, request_s, is_here=is_here),
    )
    if path is None:
        exam.skip_rest(Area.SERVER, "needs data path")
        return
    probe = exam.ask("generation", lambda: dialect.probe(url), judge_probe)
    if probe is None or probe.phase is not Phase.READY:
        exam.skip_rest(Area.SERVER, "needs generation")
        return
    effective = exam.ask(
        "flags",
        lambda: dialect.fetch_effective_flags(url, read_environment()),
        lambda found: judge_flags(dialect.find_mismatches(known.resolve(settings.baseline), found)),
    )
    concurrency = max(cell.concurrency for stage in settings.benchmark.stages for cell in stage.cells)
    exam.judge("thresholds", effective, judge_thresholds, needs="flags")
    exam.judge("batch limits", effective, lambda found: judge_batch_limits(found, concurrency), needs="flags")
    exam.judge("version", effective, judge_version, needs="flags")
    exam.skip_rest(Area.SERVER, "not looked at")


def examine_api_key(exam: Examination, settings: StudySettings, command: Sequence[str]) -> bool:
    """See whether requests would carry the key that the server wants; False when nothing may be asked of it.

    Args:
        exam: where the finding goes.
        settings: the study.
        command: the server's own words, as far as they are known.
    """
    judged: list[Judgement] = []

    def judge(key: ApiKey | None) -> Judgement:
        judged.append(judge_api_key(key, command))
        return judged[-1]

    exam.ask("api key", lambda: read_api_key(settings.server.api_key_variable), judge)
    return bool(judged) and judged[0].level is not Level.PROBLEM


def judge_api_key(key: ApiKey | None, command: Sequence[str]) -> Judgement:
    """Compare the key that requests would carry with the server's command; neither is shown."""
    is_wanted = find_flag(command, _KEY_FLAG) is not None
    if key is None and is_wanted:
        return problem(
            f"the server wants an API key ({_KEY_FLAG}) and the study names none, so every request would be refused",
            f'write api_key_variable = "{USUAL_VARIABLE}" into [server], and export that variable with the key',
            UserError,
        )
    if key is None:
        return ok("the server wants none")
    if not is_wanted:
        return ok("one is sent; the command does not say whether the server wants it")
    if not key.is_one_of(command, _KEY_FLAG):
        return problem("the key is not the one that the server was started with", "export the server's own", UserError)
    return ok("it is the one that the server was started with")


def assume_request_s(settings: StudySettings) -> float:
    """Return how long the shortest request of the load takes on a fast server, in seconds."""
    return settings.benchmark.output_tokens / FAST_TOKENS_PER_S


def judge_path(measured: PathMeasurement, request_s: float, *, is_here: bool) -> Judgement:
    """Say whether the way to the server is part of what would be measured.

    Args:
        measured: the way.
        request_s: how long the shortest request takes.
        is_here: whether the server is on this machine, so that there is no shorter way.
    """
    rate = "" if measured.chunks_per_s is None else f", {measured.chunks_per_s:.0f} chunks/s"
    high = "any" if measured.high_s is None else f"{1000 * measured.high_s:.1f}"
    said = (
        f"round trip {1000 * measured.round_trip_s:.1f} ms ({1000 * measured.low_s:.1f} to {high}, "
        f"{measured.count} of them){rate}: "
        f"{100 * path_cost(measured.round_trip_s, request_s):.2f} % of a request of {request_s:.1f} s"
    )
    verdict = judge_cost(measured, request_s)
    if verdict is PathVerdict.FINE:
        return ok(said)
    most = f"at most {100 * MOST_COST:.1f} % is allowed"
    if verdict is PathVerdict.UNDECIDED:
        return warning(
            f"{said}; {most}, and whether it is that little cannot be told",
            "ask again while this machine, the server and the network between them are idle",
        )
    if is_here:
        return warning(f"{said}; {most}", "this machine is busy: end what else runs here")
    return problem(
        f"{said}; {most}",
        'run the tuner on the host itself, use data_path = "direct", or raise benchmark.output_tokens',
        MeasurementError,
    )


def judge_traffic(requests: int | None) -> Judgement:
    """Say whether others use the server."""
    if requests is None:
        return warning(
            "the server does not say how many requests it works on",
            "start it with --enable-metrics; until then nobody sees that others use it",
        )
    if requests:
        return warning(
            f"{requests} requests of others are in flight",
            "take the server out of the load balancer before a night: it is not stopped while it serves others",
        )
    return ok("no request of others is in flight")


def judge_probe(probe: Probe) -> Judgement:
    """Say whether the server generates."""
    if probe.phase is Phase.READY:
        return ok(probe.answer)
    return problem(
        f"the server does not generate: {probe.answer}",
        "see its log; a night begins with this server as the baseline",
        BaselineError,
    )


def judge_flags(mismatches: tuple[str, ...]) -> Judgement:
    """Say whether what runs is what the study calls its baseline."""
    if mismatches:
        return problem(
            f"the server is not the study's baseline: {'; '.join(mismatches)}",
            "write into [baseline] what the server runs with, or start the server with what [baseline] says",
            UserError,
        )
    return ok("the server runs with what [baseline] says")


def judge_thresholds(effective: Effective) -> Judgement:
    """Say whether the server accepts tokens that its model would not choose."""
    lossy = [
        f"{name} is {value:g}"
        for name in _THRESHOLDS
        if isinstance(value := effective.get(name), (int, float)) and not isinstance(value, bool) and value < 1
    ]
    if lossy:
        return warning(
            f"{' and '.join(lossy)}: below 1 the answers are no longer those of the model",
            "set both to 1; greedy requests do not show the loss",
        )
    if not any(name in effective for name in _THRESHOLDS):
        return skipped("the server reports no accept threshold")
    return ok("accept thresholds are 1: answers stay those of the model")


def judge_batch_limits(effective: Effective, concurrency: int) -> Judgement:
    """Compare the server's own limits with the busiest cell."""
    said, low = [], []
    for names, what in ((_RUNNING_LIMITS, "running requests"), (_GRAPH_LIMITS, "CUDA graphs")):
        for name in names:
            value = effective.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                said.append(f"{what} up to {value}")
                if value < concurrency:
                    low.append(f"{name} is {value}")
                break
    if low:
        return warning(
            f"{' and '.join(low)}, and a cell has {concurrency} requests in flight",
            f"raise it to {concurrency}: else that cell measures the queue, or decoding without graphs",
        )
    return ok(", ".join(said)) if said else skipped("the server reports no limit")


def judge_version(effective: Effective) -> Judgement:
    """Name the version."""
    version = effective.get("version")
    return skipped("the server does not say") if version is None else ok(str(version))
