"""``autotune bench``: the load generator alone, against any server that speaks OpenAI's chat API."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from autotune.api_key import ApiKey
from autotune.benchmark.api_fields import CANDIDATES, NATIVE
from autotune.benchmark.latency_limits import LatencyLimits, parse_limits
from autotune.benchmark.saved_result import BenchmarkResult, CellResult, dump_result, save_result
from autotune.benchmark.standalone import Endpoint, StandaloneBenchmark, connect, parse_url
from autotune.cli import render
from autotune.cli.bench_progress import BenchProgress
from autotune.cli.endpoint_options import endpoint_options, read_key, refuse_simulation, say_endpoint
from autotune.cli.finite_range import LARGEST_SEED, FiniteRange
from autotune.cli.option_values import checked, parse_counts, parse_mix
from autotune.cli.record_place import open_record_place
from autotune.export.wording import UNKNOWN, clean, known_bounds, render_duration, render_number
from autotune.measuring_mark import Work, WorkMark
from autotune.settings import BenchmarkSettings, CellSettings, SamplingSettings, StageSettings
from autotune.trial import Distribution, Figure

_FAILED = 5


@click.command("bench")
@click.argument("url", callback=checked(parse_url))
@click.option(
    "--context",
    "contexts",
    default="1024",
    show_default=True,
    callback=checked(parse_counts),
    metavar="N,...",
    help="Prompt lengths in tokens, chat template included, as the server counts them.",
)
@click.option(
    "--concurrency",
    "concurrencies",
    default="1,8,32",
    show_default=True,
    callback=checked(parse_counts),
    metavar="N,...",
    help="Requests in flight; with --rate the most there may be.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=FiniteRange(min=0, min_open=True),
    metavar="R",
    help="Send R requests a second at random moments, instead of keeping the concurrency in flight.",
)
@click.option(
    "--output-tokens", type=click.IntRange(min=2), default=256, show_default=True, help="Token limit of an answer."
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Times each cell is measured, with prompts of their own.",
)
@click.option(
    "--requests", type=click.IntRange(min=1), metavar="N", help="Requests per repeat; default: concurrency, at least 4."
)
@click.option(
    "--mix",
    default="code=2,chat=1,reasoning=1",
    show_default=True,
    callback=checked(parse_mix),
    metavar="KIND=SHARE,...",
    help="Kinds of prompts: code, chat, reasoning, long.",
)
@click.option(
    "--api",
    type=click.Choice(["chat", "native"]),
    default="chat",
    show_default=True,
    help="OpenAI's chat, or SGLang's own /generate: no chat template, accept length by each answer itself.",
)
@endpoint_options
@click.option("--ignore-eos", is_flag=True, help="Go on to the token limit; changes what is measured.")
@click.option(
    "--seed", type=click.IntRange(0, LARGEST_SEED), default=1, show_default=True, help="Of the prompts and of sampling."
)
@click.option(
    "--slo",
    "limits",
    callback=checked(parse_limits),
    metavar="NAME=TIME,...",
    help="Latencies that a request must meet, for example ttft=500ms,tpot=50ms,request=20s: counts those that do, and names "
    "the largest load at which 95 % do.",
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
@click.option(
    "--save",
    "save_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the result as JSON, for `autotune compare`, and every request beside it in FILE.requests.jsonl.",
)
@click.pass_context
def command(context: click.Context, /, url: str, api_key_variable: str | None, **options: Any) -> None:
    """Measure how fast any server with OpenAI's chat API answers, at every context and concurrency.

    URL is its address: SGLang, vLLM, a hosted one. Nothing on it is changed; its prefix
    cache is flushed where it offers that. The server's own counters, if it shows them, give accept length and step time.

    \b
    autotune bench http://127.0.0.1:30000 --context 1024,4096 --concurrency 1,32 --save before.json
    autotune bench https://api.example.com/v1 --model NAME --api-key-variable API_KEY --concurrency 4
    """  # noqa: D301 - click needs the control character itself
    save_path: Path | None = options.pop("save_path")
    as_json: bool = options.pop("as_json")
    limits: LatencyLimits | None = options.pop("limits")
    model: str | None = options.pop("model")
    candidates = (NATIVE,) if options.pop("api") == "native" else CANDIDATES
    settings = make_settings(**options)
    api_key = read_key(api_key_variable)
    refuse_simulation(url)
    measured: list[BenchmarkResult] = []
    with WorkMark(Work.MEASURING):
        endpoint = connect(url, settings, model=model, api_key=api_key, candidates=candidates)
        say_endpoint(endpoint, Work.MEASURING)
        try:
            records = measure(endpoint, settings, save_path, api_key, is_live=not as_json, on_result=measured.append)
        finally:  # what was measured before something ended it is worth its time
            if measured:
                show_all(measured[-1], limits, as_json=as_json)
    if save_path is not None:
        render.say(f"wrote {save_path} and {records}; next: `autotune compare {save_path} OTHER`")
    context.exit(_FAILED if any(cell.measurement is None for cell in measured[-1].cells) else 0)


def measure(
    endpoint: Endpoint,
    settings: BenchmarkSettings,
    save_path: Path | None,
    api_key: ApiKey | None,
    *,
    is_live: bool,
    on_result: Callable[[BenchmarkResult], None],
) -> Path:
    """Measure every cell; show how far it is, and save what there is after each.

    Args:
        endpoint: a server that answered.
        settings: what is sent.
        save_path: where the result goes, with the records beside it; ``None`` keeps neither.
        api_key: opens the server's API.
        is_live: draw a bar, where there is a terminal.
        on_result: told everything so far after each cell.

    Returns:
        The file with the records.

    Raises:
        UserError: a file cannot be written.
    """
    with (
        open_record_place(save_path, "requests.jsonl") as records,
        BenchProgress(settings, is_live=is_live and render.is_terminal()) as progress,
    ):

        def take_cell(cell: CellResult, so_far: BenchmarkResult) -> None:
            progress.take_cell(cell)
            on_result(so_far)
            if save_path is not None:
                save_result(so_far, save_path)

        StandaloneBenchmark(
            endpoint,
            settings,
            records,
            keep_records=save_path is not None,
            api_key=api_key,
            on_record=progress.take_record,
            on_cell=take_cell,
        ).run()
    return records


def show_all(result: BenchmarkResult, limits: LatencyLimits | None, *, as_json: bool) -> None:
    """Print a result as data or as a table, with the latencies that were asked for."""
    if as_json:
        render.show_json(dump_result(result) | ({} if limits is None else {"slo": describe_limits(result, limits)}))
        return
    show_result(result)
    if limits is not None:
        show_limits(result, limits)


def make_settings(
    *,
    contexts: Sequence[int],
    concurrencies: Sequence[int],
    rate_per_s: float | None,
    output_tokens: int,
    repeats: int,
    requests: int | None,
    mix: dict[str, float],
    temperature: float,
    top_p: float,
    thinking: bool | None,
    ignore_eos: bool,
    seed: int,
) -> BenchmarkSettings:
    """Turn the options into what a study file calls its benchmark: every context at every concurrency, short ones first."""
    cells = tuple(
        CellSettings(context=tokens, concurrency=concurrency, requests=requests, arrival_rate_per_s=rate_per_s)
        for tokens in sorted(contexts)
        for concurrency in sorted(concurrencies)
    )
    return BenchmarkSettings(
        stages=(StageSettings(name="bench", cells=cells),),
        output_tokens=output_tokens,
        repeats=repeats,
        mix=mix,
        ignore_eos=ignore_eos,
        sampling=SamplingSettings(temperature=temperature, top_p=top_p, seed=seed, thinking=thinking),
    )


def show_result(result: BenchmarkResult) -> None:
    """Print a table of cells, then what should be known about them."""
    render.show_table(
        (
            "context",
            "C" if all(cell.settings.arrival_rate_per_s is None for cell in result.cells) else "most C",
            "decode tok/s",
            "95 %",
            "per stream",
            "total tok/s",
            "TTFT p50",
            "p95",
            "TPOT p50",
            "accept",
            "step",
            "ok",
            "time",
        ),
        [_row(cell) for cell in result.cells],
    )
    render.show(
        "Speeds are tokens/s over all streams, decode without prefill; TTFT, TPOT and step in ms. "
        "Figures: docs/metrics.md."
    )
    for cell in result.cells:
        name = cell.settings.cell.name
        if cell.measurement is None:
            render.show(f"{name}: not measured: {clean(cell.error or '')}")
            continue
        if cell.measurement.foreign is not None:
            render.show(
                f"{name}: others used the server: {clean(cell.measurement.foreign)}; measure again when it is quiet"
            )
        for note in cell.measurement.notes:
            render.show(f"{name}: {clean(note)}")


def show_limits(result: BenchmarkResult, limits: LatencyLimits) -> None:
    """Print how many requests of each cell met some latencies, and the largest load at which nearly all did."""
    for cell in result.cells:
        if cell.measurement is not None:
            goodput = limits.goodput_per_s(cell) or 0.0
            render.show(
                f"{cell.settings.cell.name}: {limits.count_met(cell.prompts)} of {cell.measurement.requests} requests met the "
                f"limits, {render_number(goodput)} a second"
            )
    for context in sorted({cell.settings.context for cell in result.cells}):
        met = [
            cell.settings.concurrency
            for cell in result.cells
            if cell.settings.context == context and limits.is_met_by(cell)
        ]
        most = f"concurrency {max(met)} is the largest measured at" if met else "no measured concurrency is one at"
        render.show(f"context {context}: {most} which 95 % of requests meet the limits")


def describe_limits(result: BenchmarkResult, limits: LatencyLimits) -> dict[str, Any]:
    """Say the same as data."""
    return {
        "limits_s": dataclasses.asdict(limits),
        "cells": [
            {
                "cell": cell.settings.cell.name,
                "met": None if cell.measurement is None else limits.count_met(cell.prompts),
                "requests": None if cell.measurement is None else cell.measurement.requests,
                "goodput_per_s": limits.goodput_per_s(cell),
                "is_met": limits.is_met_by(cell),
            }
            for cell in result.cells
        ],
    }


def _row(cell: CellResult) -> tuple[str, ...]:
    measured = cell.measurement
    settings = cell.settings
    if measured is None:
        return (str(settings.context), str(settings.concurrency), *[UNKNOWN] * 9, "0", UNKNOWN)
    latencies = measured.latencies
    ttft = latencies.ttft_s if latencies is not None else None
    tpot = latencies.tpot_s if latencies is not None else None
    bounds = known_bounds(measured.decode_tokens_per_s)
    return (
        str(settings.context),
        str(settings.concurrency),
        render_number(measured.decode_tokens_per_s.value),
        UNKNOWN if bounds is None else f"{render_number(bounds[0])}-{render_number(bounds[1])}",
        _per_stream(latencies.decode_tokens_per_s if latencies is not None else None),
        render_number(measured.total_tokens_per_s.value),
        _milliseconds(None if ttft is None else ttft.p50),
        _milliseconds(None if ttft is None else ttft.p95),
        _milliseconds(None if tpot is None else tpot.p50),
        _value(measured.accept_length),
        _milliseconds(None if measured.step_time_s is None else measured.step_time_s.value),
        f"{measured.succeeded}/{measured.requests}",
        render_duration(measured.duration_s),
    )


def _per_stream(speeds: Distribution | None) -> str:
    return UNKNOWN if speeds is None else render_number(speeds.p50)


def _value(figure: Figure | None) -> str:
    return UNKNOWN if figure is None else render_number(figure.value)


def _milliseconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else render_number(1000 * seconds)
