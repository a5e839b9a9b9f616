"""``autotune evaluate``: the coding evaluation alone, against any server that speaks OpenAI's chat API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autotune import __version__
from autotune.api_key import ApiKey
from autotune.benchmark.standalone import Endpoint, connect, parse_url
from autotune.cli import render
from autotune.cli.endpoint_options import endpoint_options, read_key, refuse_simulation, say_endpoint
from autotune.cli.evaluate_progress import EvaluateProgress
from autotune.cli.finite_range import LARGEST_SEED
from autotune.cli.option_values import checked, parse_duration
from autotune.cli.record_place import open_record_place
from autotune.errors import UserError
from autotune.evaluation.evaluation import Evaluation
from autotune.evaluation.problem import DIFFICULTIES, load_problems
from autotune.evaluation.saved_evaluation import EvaluationResult, dump_evaluation, save_evaluation
from autotune.export.wording import UNKNOWN, clean, known_bounds, render_duration, render_number
from autotune.measuring_mark import Work, WorkMark
from autotune.pass_rate import score_pass_at_1
from autotune.settings import BenchmarkSettings, CellSettings, EvaluationSettings, SamplingSettings, StageSettings
from autotune.trial import EvaluationMeasurement, Figure, ProblemResult, Verdict

_MOST_FAILURES = 20
_ISOLATION = ("required", "run generated code without isolation")


@click.command("evaluate")
@click.argument("url", callback=checked(parse_url))
@click.option("--problems", type=click.IntRange(min=1), metavar="N", help="The first N problems; default: all.")
@click.option(
    "--problem-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="HumanEval+ or MBPP+ as EvalPlus publishes them (JSON lines, also gzipped) instead of our own 80 problems.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1, max=1000),
    default=1,
    show_default=True,
    metavar="K",
    help="Answers to each problem, each with a seed of its own; above 1 with a temperature above 0.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Answers asked for at once."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="Token limit of an answer, thinking included; what it cuts has a verdict of its own. The longest prompt and so many "
    "tokens must fit into the server's context.",
)
@click.option(
    "--limit",
    "answers_limit_s",
    default="30m",
    show_default=True,
    callback=checked(parse_duration),
    metavar="TIME",
    help="Wall time for all answers; what has not come by then is not answered.",
)
@endpoint_options
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=1, show_default=True, help="Of sampling.")
@click.option(
    "--isolation",
    type=click.Choice(_ISOLATION),
    default=_ISOLATION[0],
    show_default=True,
    help="Where the sandbox does not hold on this machine: refuse, or go on all the same.",
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
@click.option(
    "--save",
    "save_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the result as JSON, for `autotune compare`, and every answer with its verdict in FILE.answers.jsonl.",
)
def command(url: str, api_key_variable: str | None, **options: Any) -> None:
    """Measure how well any server with OpenAI's chat API writes code, by hidden tests in a sandbox.

    URL is its address. Nothing on it is changed; its prefix cache is flushed where it offers that. It is asked 80 problems in
    three difficulties, or those of --problem-file; the programs run in a sandbox on this machine. The answers' speed and accept
    length are measured on the way. Where `autotune optimize` or `bench` measures on this machine it refuses to disturb them.

    \b
    autotune evaluate http://127.0.0.1:30000 --save before.json
    autotune evaluate https://api.example.com/v1 --model NAME --api-key-variable API_KEY --samples 5 --temperature 0.6
    autotune compare before.json after.json
    """  # noqa: D301 - click needs the control character itself
    save_path: Path | None = options.pop("save_path")
    as_json: bool = options.pop("as_json")
    model: str | None = options.pop("model")
    settings = make_settings(**options)
    api_key = read_key(api_key_variable)
    refuse_simulation(url)
    started_at = _now()
    with WorkMark(Work.JUDGING):
        endpoint = connect(url, _describe_requests(settings), model=model, api_key=api_key)
        say_endpoint(endpoint, Work.JUDGING)
        measurement, records = evaluate(endpoint, settings, save_path, api_key, is_live=not as_json)
    result = EvaluationResult(
        url=url,
        model=endpoint.model,
        server_version=endpoint.version,
        api=endpoint.fields.description,
        autotune=__version__,
        started_at=started_at,
        ended_at=_now(),
        settings=settings,
        measurement=measurement,
        records=None if save_path is None else str(records),
    )
    if as_json:
        render.show_json(dump_evaluation(result))
    else:
        show_evaluation(result)
    if save_path is not None:
        save_evaluation(result, save_path)
        render.say(f"wrote {save_path} and {records}; next: `autotune compare {save_path} OTHER`")


def evaluate(
    endpoint: Endpoint, settings: EvaluationSettings, save_path: Path | None, api_key: ApiKey | None, *, is_live: bool
) -> tuple[EvaluationMeasurement, Path]:
    """Ask and judge everything, and show how far it is.

    Args:
        endpoint: a server that answered.
        settings: what is asked.
        save_path: where the result will go, with the answers beside it; ``None`` keeps neither.
        api_key: opens the server's API.
        is_live: draw a bar, where there is a terminal.

    Returns:
        What came out, and the file with every answer.

    Raises:
        UserError: a file cannot be written.
    """
    with (
        open_record_place(save_path, "answers.jsonl") as records,
        EvaluateProgress(is_live=is_live and render.is_terminal()) as progress,
    ):
        measurement = Evaluation(
            endpoint.url,
            settings,
            records,
            on_progress=progress.take,
            speculative=None,
            api_key=api_key,
            model=endpoint.model,
            fields=endpoint.fields,
        ).run()
    return measurement, records


def make_settings(
    *,
    problems: int | None,
    problem_file: Path | None,
    samples: int,
    concurrency: int,
    max_tokens: int,
    answers_limit_s: float,
    temperature: float,
    top_p: float,
    thinking: bool | None,
    seed: int,
    isolation: str,
) -> EvaluationSettings:
    """Turn the options into what a study file calls its evaluation.

    Raises:
        UserError: several answers to a problem would all be the same.
    """
    if samples > 1 and temperature == 0:
        raise UserError(
            f"--samples {samples} asks for several greedy answers to each problem, which are all the same",
            where="--samples",
            hint="add --temperature 0.6, or what your users send",
        )
    return EvaluationSettings(
        problems=problems,
        problem_file=None if problem_file is None else str(problem_file),
        samples=samples,
        concurrency=concurrency,
        max_tokens=max_tokens,
        answers_limit_s=answers_limit_s,
        isolation="required" if isolation == _ISOLATION[0] else "run generated code without isolation",
        sampling=SamplingSettings(temperature=temperature, top_p=top_p, seed=seed, thinking=thinking),
    )


def show_evaluation(result: EvaluationResult) -> None:
    """Print a table of verdicts by difficulty, the speed of the answers, what to know, and what did not pass."""
    measurement = result.measurement
    render.show_table(
        ("difficulty", "problems", *(verdict.value for verdict in Verdict), "pass@1", "95 %"),
        [_row(name, results) for name, results in group_results(result)],
    )
    if measurement.pass_at_k is not None:
        render.show(
            f"pass@{result.settings.samples}: {_percent(measurement.pass_at_k.value)} ({_interval(measurement.pass_at_k)})"
        )
    render.show(f"speed: {describe_speed(result)}")
    render.show(f"problem set {measurement.problem_set}; figures: docs/evaluation.md")
    for note in measurement.notes:
        render.show(f"note: {clean(note)}")
    failures = [item for item in measurement.results if item.verdict is not Verdict.PASSED]
    for item in failures[:_MOST_FAILURES]:
        sample = f" #{item.sample}" if result.settings.samples > 1 else ""
        render.show(f"{clean(item.problem)}{sample}: {item.verdict.value}: {clean(item.reason)}")
    if len(failures) > _MOST_FAILURES:
        render.show(f"and {len(failures) - _MOST_FAILURES} more; --json and --save have them all")


def describe_speed(result: EvaluationResult) -> str:
    """Say how fast the answers came, in a line."""
    measurement = result.measurement
    parts = []
    if measurement.tokens_per_s is not None:
        parts.append(f"{render_number(measurement.tokens_per_s)} tokens/s over whole answers")
    if measurement.cell is not None:
        parts.append(f"{render_number(measurement.cell.decode_tokens_per_s.value)} while decoding")
    if measurement.accept_length is not None:
        parts.append(f"accept length {render_number(measurement.accept_length)}")
    parts.append(f"C={result.settings.concurrency}")
    parts.append(f"{render_duration(measurement.duration_s)} with judging")
    return ", ".join(parts)


def group_results(result: EvaluationResult) -> Iterator[tuple[str, list[ProblemResult]]]:
    """Yield the results of each difficulty, where the problems have one, and of all."""
    if result.settings.problem_file is None:
        difficulty = {problem.name: problem.difficulty for problem in load_problems()}
        for name in DIFFICULTIES:
            yield name, [item for item in result.measurement.results if difficulty.get(item.problem) == name]
    yield "all", list(result.measurement.results)


def _row(name: str, results: list[ProblemResult]) -> tuple[str, ...]:
    counts = Counter(item.verdict for item in results)
    figure = score_pass_at_1(results)
    return (
        name,
        str(len({item.problem for item in results})),
        *(str(counts[verdict]) for verdict in Verdict),
        UNKNOWN if figure is None else _percent(figure.value),
        UNKNOWN if figure is None else _interval(figure),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _interval(figure: Figure) -> str:
    bounds = known_bounds(figure)
    return UNKNOWN if bounds is None else f"{100 * bounds[0]:.1f}-{100 * bounds[1]:.1f}"


def _describe_requests(settings: EvaluationSettings) -> BenchmarkSettings:
    """What a first short request is sent with."""
    cell = CellSettings(context=1, concurrency=1)
    return BenchmarkSettings(stages=(StageSettings(name="evaluate", cells=(cell,)),), sampling=settings.sampling)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
