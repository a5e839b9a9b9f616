"""How does a study of a live service read? Facts in, commented TOML out; pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autotune.api_key import USUAL_VARIABLE
from autotune.errors import UserError
from autotune.found_configuration import find_flag
from autotune.initial_study.facts import Facts, Sampling
from autotune.initial_study.families import EMBEDDED, Choice, choose_family
from autotune.initial_study.fit import Fit, fit_space
from autotune.initial_study.obstacles import check_measurable, find_warnings
from autotune.initial_study.request_lengths import FEWEST_BATCHES
from autotune.initial_study.workload import Workload, plan_workload
from autotune.search_space import search_space_of
from autotune.search_space_file import NONE_WORD, IntParameter
from autotune.settings import CONFIRMATION_BOOTS, SOAK_S, DeploymentSettings, parse_settings
from autotune.trial import ParameterValue

SHORTEST_READY_S: Final = 1800.0
"""Least patience with a start of a real server, in seconds."""

_SHORTEST_READY_EMBEDDED_S: Final = 120.0
_LOADS: Final = 3
_WIDTH: Final = 118
_SHORTEST_STOP_S: Final = 300.0
_SHORTEST_STOP_EMBEDDED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class InitialStudy:
    """A study and what is to be said about it.

    Attributes:
        text: TOML with comments.
        summary: sentences that say in short what was found and what the study does.
        notes: sentences about what was decided, and why.
        warnings: sentences about what to do before a night.
    """

    text: str
    summary: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def write_study(facts: Facts, deployment: DeploymentSettings, name: str) -> InitialStudy:
    """Write the study of a service.

    Args:
        facts: what was read.
        deployment: names the service and the way to it.
        name: of the study.

    Raises:
        UserError: no study can be made of this service; the message says what to do.
    """
    check_measurable(facts)
    choice = choose_family(facts)
    if facts.drafter is None and choice.family.space != EMBEDDED:
        raise UserError(
            "the service names no drafter, without which nothing can be speculated",
            where=facts.unit,
            hint="write --speculative-draft-model-path into the unit, restart the service, then run this again",
        )
    plan = plan_workload(facts, choice.family)
    fit = fit_space(facts, choice, plan.longest + plan.output_tokens)
    sampling, sampled_by = _choose_sampling(facts, choice)
    lines = [
        *_head(facts, choice, name),
        *_deployment(facts, deployment),
        *_server(facts, choice, fit),
        *_baseline(facts, fit),
        *_benchmark(facts, plan, sampling, sampled_by),
        *_evaluation(facts, plan, sampling),
        *_confirmation(),
        *_comment(
            f"What is searched: the packaged search space {choice.family.space}, narrowed to what this server takes and widened "
            f"to what it runs; {fit.space.size} configurations differ."
        ),
        fit.text.rstrip(),
    ]
    text = "\n".join(lines) + "\n"
    search_space_of(parse_settings(text, "the study that was written"))
    notes = (f"{choice.family.title}: {choice.because}", *fit.notes, *plan.left_out, *_explain_unanswered(facts))
    return InitialStudy(
        text, tuple(_summarize(facts, plan, fit)), notes, (*fit.warnings, *find_warnings(facts, choice))
    )


def _head(facts: Facts, choice: Choice, name: str) -> Iterator[str]:
    source = "what the service runs" if facts.runs else f"its unit, because the service is {facts.active_state}"
    yield from _comment(f"Study of {facts.unit}, written by `autotune init` from {source}.")
    yield from _comment(f"{_name_models(facts)}; {_list_gpus(facts)}.")
    yield from _comment(f"Server: {choice.family.title}, version {facts.version or 'unknown'}: {choice.because}.")
    yield from _comment(f"Files: {', '.join(facts.files)}.")
    yield "#"
    yield from _comment(
        "Next, with the name of the file that this is written to as STUDY: autotune doctor STUDY --until 06:30; then autotune "
        "optimize STUDY --until 06:30"
    )
    yield ""
    yield f"name = {_quote(name)}"
    yield "seed = 1"
    yield ""


def _deployment(facts: Facts, deployment: DeploymentSettings) -> Iterator[str]:
    yield "[deployment]"
    yield 'kind = "systemd"'
    yield f"unit = {_quote(facts.unit)}"
    if deployment.host is None:
        yield 'data_path = "on-host"  # the tuner runs on the GPU host itself: best for a night'
    else:
        yield f"host = {_quote(deployment.host)}"
        if deployment.ssh_config is not None:
            yield f"ssh_config = {_quote(deployment.ssh_config)}"
        yield 'data_path = "tunnel"  # doctor measures what it costs; on the host itself there is none'
    if facts.launch_kind == "script":
        yield from _comment(
            f"The unit starts a script: it must expand ${deployment.arguments_variable}, unquoted, at the end of the server's "
            "command; doctor looks."
        )
    yield from _comment(
        "When the host has not heard of the tuner for so many seconds, it puts the baseline back by itself."
    )
    yield "lease_s = 600.0"
    yield ""


def _server(facts: Facts, choice: Choice, fit: Fit) -> Iterator[str]:
    is_embedded = choice.family.space == EMBEDDED
    shortest = _SHORTEST_READY_EMBEDDED_S if is_embedded else SHORTEST_READY_S
    ready_s = max(shortest, _LOADS * (facts.load_s or 0))
    stop_s = max(_SHORTEST_STOP_EMBEDDED_S if is_embedded else _SHORTEST_STOP_S, facts.timeout_stop_s or 0)
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(facts.address, facts.address)  # noqa: S104  # compared, not bound
    yield "[server]"
    yield from _comment("The command is the unit's own; only tuned flags and variables are exchanged in it.")
    yield f"host = {_quote(near)}"
    yield f"port = {facts.port}"
    if find_flag(facts.command, "--api-key") is not None:
        yield from _comment(
            "The server wants a key: export this variable with it where the tuner runs. It is written nowhere."
        )
        yield f"api_key_variable = {_quote(USUAL_VARIABLE)}"
    yield from _comment(_explain_patience(facts, shortest))
    yield f"ready_timeout_s = {_number(ready_s)}"
    yield from _comment("A start that shows nothing new for so long, no line in the log and no other phase, has hung.")
    yield f"stall_timeout_s = {_number(max(shortest / 2, facts.load_s or 0))}"
    yield from _comment("On SIGTERM the server finishes the requests it has; killed, it may leave GPU memory behind.")
    yield f"stop_timeout_s = {_number(stop_s)}"
    if fit.proofs:
        yield from _comment(
            "What this server shows about its trees: configurations that one of these properties (`proven_by` below) makes the "
            "same are booted once."
        )
        yield f"proofs = [{', '.join(map(_quote, fit.proofs))}]"
    else:
        yield from _comment("Nothing shows that two configurations are the same on this server: nothing is merged.")
    yield ""


def _explain_patience(facts: Facts, shortest_s: float) -> str:
    """Say why a start may take as long as the study lets it."""
    if facts.load_s is not None:
        took = f"The load of the server that runs took {facts.load_s:.0f} s by the journal"
        if _LOADS * facts.load_s >= shortest_s:
            return f"{took}; {_LOADS} times that is given."
        return f"{took}; {shortest_s:.0f} s is the least that is given."
    why = "its ready line is not in the journal" if facts.runs else f"the service is {facts.active_state}"
    return f"How long a load takes is not known, because {why}; {shortest_s:.0f} s is given: make it longer for a larger model."


def _baseline(facts: Facts, fit: Fit) -> Iterator[str]:
    yield from _comment("What runs now, and serves again afterwards." if facts.runs else "What the unit would start.")
    yield "[baseline]"
    yield from _values(fit.baseline)
    yield ""
    home = fit.space.arm(fit.space.resolve({name: _none(value) for name, value in fit.baseline.items()}))
    arms = dict.fromkeys(fit.space.arm(configuration) for configuration in fit.space.configurations)
    for arm in arms:
        if arm is None or arm == home:
            continue
        configuration = _choose_of_arm(fit, arm)
        yield from _comment(f"The {arm} arm: no search may forget it.")
        yield "[[try]]"
        yield from _values(
            {name: configuration[name] for name in fit.space.parameters if _matters(fit, name, configuration)}
        )
        yield ""


def _choose_of_arm(fit: Fit, arm: str) -> Mapping[str, ParameterValue]:
    """Return the configuration of an arm that is nearest to the defaults."""

    def distance(configuration: Mapping[str, ParameterValue]) -> float:
        return sum(
            abs(value - parameter.default) / parameter.size
            if isinstance(parameter, IntParameter) and isinstance(value := configuration[name], int)
            else float(configuration[name] != parameter.default)
            for name, parameter in fit.space.parameters.items()
        )

    return min((item for item in fit.space.configurations if fit.space.arm(item) == arm), key=distance)


def _matters(fit: Fit, name: str, configuration: Mapping[str, ParameterValue]) -> bool:
    """Whether a parameter reaches the server in a configuration, or switches others off."""
    needs = fit.space.parameters[name].needs
    return needs is None or not fit.space.parameters[needs].is_omitted(configuration[needs])


def _benchmark(facts: Facts, plan: Workload, sampling: Sampling, sampled_by: str) -> Iterator[str]:
    yield "[benchmark]"
    yield f"output_tokens = {plan.output_tokens}"
    yield f"repeats = {plan.repeats}"
    yield from _comment(
        "Kinds of prompts by share: make it what the users of this service send. Code is accepted best, chat worst."
    )
    yield "mix = { code = 2, chat = 1, reasoning = 1 }"
    yield ""
    yield from _comment(sampled_by)
    yield "[benchmark.sampling]"
    yield from _sampling(facts, sampling)
    yield ""
    if facts.lengths is None:
        yield from _comment(
            f"The journal shows fewer than {FEWEST_BATCHES} prefill batches of a server that was ready, too few to say how long "
            "production's prompts are: these lengths are a guess."
        )
    else:
        lengths = facts.lengths
        yield from _comment(
            f"Prompts in the journal: half are up to {lengths.median} tokens, nine of ten up to {lengths.p90}, the longest "
            f"{lengths.longest} ({lengths.batches} prefill batches)"
            + ("." if lengths.busiest is None else f"; at most {lengths.busiest} requests were decoded at once.")
        )
    for sentence in plan.left_out:
        yield from _comment(f"Left out, {sentence}.")
    for stage in plan.stages:
        yield from _comment(stage.comment)
        yield "[[benchmark.stages]]"
        yield f"name = {_quote(stage.name)}"
        cells = [f"{{ context = {context}, concurrency = {concurrency} }}" for context, concurrency in stage.cells]
        if len(cells) == 1:
            yield f"cells = [{cells[0]}]"
        else:
            yield from ("cells = [", *(f"  {cell}," for cell in cells), "]")
        yield ""


def _evaluation(facts: Facts, plan: Workload, sampling: Sampling) -> Iterator[str]:
    yield "[evaluation]"
    if plan.problems is not None:
        yield f"problems = {plan.problems}"
    yield f"max_tokens = {plan.answer_tokens}"
    yield ""
    yield "[evaluation.sampling]"
    yield from _sampling(facts, sampling)
    yield ""


def _confirmation() -> Iterator[str]:
    yield from _comment(
        "The best of many trials is lucky: it and the baseline are booted again after the search, so often together, and only a "
        "gain that shows in these boots is recommended. Then it is loaded for long: some servers die only after thousands of steps."
    )
    yield "[confirmation]"
    yield f"boots = {CONFIRMATION_BOOTS}"
    yield f"soak_s = {SOAK_S}"
    yield ""


def _choose_sampling(facts: Facts, choice: Choice) -> tuple[Sampling, str]:
    """Return how answers are sampled, and why so."""
    if choice.family.is_greedy:
        return Sampling(
            0.0, 1.0
        ), "This server refuses requests that sample (#36196): greedy, and so must production be."
    if _is_kimi(facts):
        return Sampling(
            0.6, 0.95
        ), "Kimi's instant mode, as its card recommends it; change it to what production sends."
    known = facts.sampling
    if known is not None and (known.temperature is not None or known.top_p is not None):
        return known, "As the model's generation_config.json recommends; change it to what production sends."
    return Sampling(
        0.0, 1.0
    ), "How production samples is not known; greedy acceptance is higher: change it to what is sent."


def _sampling(facts: Facts, sampling: Sampling) -> Iterator[str]:
    yield f"temperature = {_number(1.0 if sampling.temperature is None else sampling.temperature)}"
    yield f"top_p = {_number(1.0 if sampling.top_p is None else sampling.top_p)}"
    if _is_kimi(facts):
        yield "thinking = false"


def _is_kimi(facts: Facts) -> bool:
    return "kimi" in (facts.model or "").lower()


def _explain_unanswered(facts: Facts) -> Iterator[str]:
    for sentence in facts.unanswered:
        yield f"not known: {sentence}"


def _summarize(facts: Facts, plan: Workload, fit: Fit) -> Iterator[str]:
    yield f"{facts.unit} is {facts.active_state}, port {facts.port}. {_name_models(facts)}; {_list_gpus(facts)}"
    baseline = " ".join(f"{name}={_none(value)}" for name, value in fit.baseline.items())
    yield f"searched: {fit.space.size} configurations of {', '.join(fit.space.names)}; baseline {baseline}"
    cells = sum(len(stage.cells) for stage in plan.stages)
    often = "once" if plan.repeats == 1 else f"{plan.repeats} times"
    yield f"measured: {cells} cells, {often} each, prompts up to {plan.longest} tokens, answers up to {plan.output_tokens}"


def _name_models(facts: Facts) -> str:
    """Name model and drafter, and say why one is not known."""
    named = f"Model {facts.model or 'unknown'}; drafter {facts.drafter or 'unknown'}"
    if facts.model is not None and facts.drafter is not None:
        return named
    asked = "the server does not report it" if facts.reported is not None else "the server does not answer"
    why = asked if facts.runs else f"the service is {facts.active_state}"
    return f"{named} (the command does not say, and {why})"


def _list_gpus(facts: Facts) -> str:
    if facts.gpus is None:
        return "GPUs unknown"
    counts: dict[str, int] = {}
    for gpu in facts.gpus or ():
        size = "" if gpu.memory_mb is None else f" with {gpu.memory_mb / 1024:.0f} GiB"
        counts[f"{gpu.name}{size}"] = counts.get(f"{gpu.name}{size}", 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "no GPU"


def _values(values: Mapping[str, ParameterValue]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name} = {value if isinstance(value, int) else _quote(str(_none(value)))}"


def _none(value: ParameterValue) -> ParameterValue:
    return NONE_WORD if value is None else value


def _number(value: float) -> str:
    return f"{round(value, 3):g}" if value != int(value) else str(int(value))


def _quote(text: str) -> str:
    """Write a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> list[str]:
    """Write a comment of as many lines as it needs; nothing for an empty one."""
    safe = "".join(char if char.isprintable() else "?" for char in re.sub(r"\s+", " ", text))
    return textwrap.wrap(
        safe, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )
