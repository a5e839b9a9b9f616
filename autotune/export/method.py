"""How a study was measured, and what was running: terms with their meanings, for the report (pure)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autotune.confirmation.wording import describe_verdict
from autotune.export.findings import Findings
from autotune.export.provenance import hide_secret_arguments, hide_secrets
from autotune.export.wording import (
    render_boots,
    render_count,
    render_drifts,
    render_duration,
    render_noise,
    render_percent,
)
from autotune.suggestion import read_history
from autotune.trial import TrialState

if TYPE_CHECKING:
    from autotune.settings import SamplingSettings
    from autotune.study_view import StudyView


def describe_noise_and_time(view: StudyView, findings: Findings) -> list[tuple[str, str]]:
    """Return where the time went and how far boots of the same configuration lie apart."""
    time = findings.time
    return [
        ("noise between boots", render_noise(findings.noise)),
        *(("confirmation", describe_verdict(verdict)) for verdict in findings.confirmations),
        ("drift", "; ".join(render_drifts(findings)) or "no boot was seen to drift"),
        ("boots", f"{render_boots(time)} in {render_duration(time.total_s)}"),
        ("waiting for servers", render_duration(time.waiting_s)),
        ("measuring speed", render_duration(time.measuring_s)),
        ("coding problems", render_duration(time.evaluating_s)),
        ("stopped early", render_count(findings.states.get(TrialState.PRUNED, 0), "trial")),
        ("pruning", _pruning(view)),
        *_predictions(view),
    ]


def _predictions(view: StudyView) -> list[tuple[str, str]]:
    """Say how good the model's expectations were, where the sampler has a model that says what it expects."""
    if view.settings.sampler.name != "greybox":
        return []
    from autotune.sampling.greybox.calibration import look_back  # noqa: PLC0415  # slow to import

    seen = look_back(read_history(view.trials, view.settings, view.space), view.space)
    if not seen:
        return [("predictions", "none: too few boots")]
    within = sum(item.is_within for item in seen)
    off = statistics.median(abs(math.log(item.measured_tokens_per_s / item.expected_tokens_per_s)) for item in seen)
    return [
        (
            "predictions",
            (
                f"{within} of {render_count(len(seen), 'speed')} lay within the 95% interval that the model had before the boot; "
                f"the median was {render_percent(math.expm1(off))} off"
            ),
        )
    ]


def _pruning(view: StudyView) -> str:
    pruning = view.settings.pruning
    if not pruning.enabled:
        return "off"
    return (
        f"after each stage, when the model gives the configuration a chance below {render_percent(pruning.threshold)} "
        "to be on the front"
    )


def describe_measured(view: StudyView, findings: Findings) -> list[tuple[str, str]]:
    """Return how the figures were measured: stages, sampling, prompts, search, coding problems."""
    settings = view.settings
    benchmark, evaluation = settings.benchmark, settings.evaluation
    stages = "; ".join(
        f"{stage.name}: {', '.join(f'{cell.context} tokens of context, C={cell.concurrency}' for cell in stage.cells)}"
        for stage in benchmark.stages
    )
    rows = [
        ("stages", stages),
        (
            "each cell",
            (
                f"{render_count(benchmark.repeats, 'repeat')} of up to {benchmark.output_tokens} output tokens a request, "
                f"warmed up at the measured concurrency, {'past' if benchmark.ignore_eos else 'until'} the end of the answer"
            ),
        ),
        ("speed", "decode-only tokens/s by the server's usage; geometric mean over contexts"),
        ("sampling", _sampling(benchmark.sampling)),
        (
            "prompts",
            (
                f"{_describe_mix(benchmark.mix)}; as many tokens as the context by the server's count, the same prompts in "
                "the same order with the same seeds for every trial"
            ),
        ),
        (
            "search",
            (
                f"sampler {settings.sampler.name}, seed {settings.seed}, search space {settings.search_space_name}"
                f" ({view.space.size} configurations)"
            ),
        ),
    ]
    if evaluation.enabled:
        known = findings.baseline.evaluation if findings.baseline is not None else None
        asked = None if known is None else len({result.problem for result in known.results})
        problems = asked or evaluation.problems or "all"
        problem_set = f", set {known.problem_set}" if known is not None else ""
        rows.append(
            (
                "coding problems",
                f"{problems}{problem_set}, up to {evaluation.max_tokens} tokens an answer, {evaluation.concurrency} at once",
            )
        )
        rows.append(("their sampling", _sampling(evaluation.sampling)))
    rows.append(("recommended by", f"rule {settings.export.rule}, losing at most {100 * settings.export.max_loss:g}%"))
    return rows


def _sampling(sampling: SamplingSettings) -> str:
    thinking = "not asked for" if sampling.thinking is None else ("on" if sampling.thinking else "off")
    return (
        f"temperature {sampling.temperature:g}, top_p {sampling.top_p:g}, top_k {sampling.top_k}, "
        f"first seed {sampling.seed}, thinking {thinking}"
    )


def describe_provenance(
    view: StudyView, findings: Findings, autotune_version: str, written_at: str
) -> list[tuple[str, str]]:
    """Return what was running, without secrets."""
    rows = [("autotune", autotune_version), ("written", written_at), ("study", view.settings.name)]
    started = [trial.started_at for trial in view.trials if trial.started_at]
    if started:
        rows.append(("first trial", min(started)))
    trial = findings.choice.trial if findings.choice else None
    if trial is None or trial.boot is None:
        return rows
    boot = trial.boot
    rows += [
        ("server version", boot.version or "not reported"),
        ("command", " ".join(hide_secret_arguments(boot.command))),
        ("variables", " ".join(f"{n}={v}" for n, v in hide_secrets(boot.environment).items()) or "none set"),
        ("ready after", "reused as found" if boot.reused else render_duration(boot.ready_after_s)),
    ]
    return rows


def describe_details(view: StudyView, findings: Findings) -> list[tuple[str, str]]:
    """Return titled JSON texts for whoever wants everything, without secrets."""
    settings = view.settings.model_dump(mode="json", by_alias=True, exclude={"storage"})
    settings["server"]["environment"] = hide_secrets(view.settings.server.environment)
    settings["server"]["command"] = hide_secret_arguments(view.settings.server.command)
    details = [("Settings of the study", _json(settings))]
    trial = findings.choice.trial if findings.choice else None
    if trial is not None and trial.boot is not None:
        flags = {name: str(value) for name, value in trial.boot.effective_flags.items()}
        details.append(("Effective flags of the recommended trial", _json(hide_secrets(flags))))
    if trial is not None and trial.attributes:
        details.append(("Stored with the recommended trial", _json(trial.attributes)))
    return details


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def _describe_mix(mix: Mapping[str, float]) -> str:
    """Say the shares of the kinds of prompts.

    >>> _describe_mix({"code": 2.0, "chat": 1.0, "long": 1.0})
    '50 % code, 25 % chat, 25 % long'
    """
    whole = sum(mix.values())
    return ", ".join(f"{100 * share / whole:.0f} % {kind}" for kind, share in mix.items())
