"""What keeps a night on this service from being worth anything? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.api_key import USUAL_VARIABLE
from autotune.errors import UserError
from autotune.found_configuration import find_flag
from autotune.initial_study.facts import Facts
from autotune.initial_study.families import Choice
from autotune.initial_study.workload import CONCURRENCY
from autotune.servers.simulated_acceptance import find_simulation


def check_measurable(facts: Facts) -> None:
    """Refuse what would make every figure wrong.

    Raises:
        UserError: acceptance is simulated, or prefill and decode run apart.
    """
    simulation = find_simulation(facts.environment)
    if simulation is not None:
        raise UserError(
            f"the service runs with {simulation}={facts.environment[simulation]}, so it invents its accept lengths",
            where=facts.unit,
            hint="take the variable out of the unit and restart the service",
        )
    mode = facts.ask("disaggregation_mode", "--disaggregation-mode")
    if mode not in {None, "null", "none", ""}:
        raise UserError(
            f"the service runs with --disaggregation-mode {mode}: prefill and decode on servers of their own",
            where=facts.unit,
            hint="speculation with blocks crashes there (#36140); tune a service that does both",
        )


def find_warnings(facts: Facts, choice: Choice) -> Iterator[str]:
    """Yield what to do before a night."""
    running = facts.ask_number("max_running_requests", "--max-running-requests")
    if running is not None and running < CONCURRENCY:
        yield (
            f"--max-running-requests is {running:.0f}: of {CONCURRENCY} requests some would wait, and the busy figure would "
            f"be one of waiting; raise it to at least {CONCURRENCY} in the unit"
        )
    graphs = [
        facts.ask_number("cuda_graph_max_bs_decode", "--cuda-graph-max-bs-decode"),
        facts.ask_number("cuda_graph_max_bs", "--cuda-graph-max-bs"),
    ]
    captured = next((size for size in graphs if size is not None), None)
    if captured is not None and captured < CONCURRENCY:
        yield (
            f"CUDA graphs are captured up to {captured:.0f} requests: {CONCURRENCY} would be decoded without them, several "
            f"times slower; raise --cuda-graph-max-bs to at least {CONCURRENCY} in the unit"
        )
    metrics = facts.ask("enable_metrics", "--enable-metrics")
    if metrics in {None, "False", "false"}:
        yield (
            "--enable-metrics is not on: accept lengths of short cells stay unknown, and nobody sees requests of others; add it "
            "to the unit"
        )
    if find_flag(facts.command, "--api-key") is not None:
        yield (
            f"--api-key is set: export {USUAL_VARIABLE} with that key before doctor and optimize; the study names the variable "
            "and never holds the key"
        )
    if find_flag(facts.command, "--admin-api-key") is not None:
        yield (
            "--admin-api-key is set: requests carry the ordinary key, so what only the other one opens is refused, as emptying "
            "the cache between cells may be; take it out for a night"
        )
    if facts.log_gap is not None:
        yield f"{facts.log_gap}: why a boot fails would not be known; set StandardOutput=journal in the unit"
    if choice.family.tree_backend is not None and facts.ask("attention_backend", "--attention-backend") is None:
        yield (
            f"the attention backend is not known: trees need --attention-backend {choice.family.tree_backend}, and each tree is "
            "refused at its start where another one runs"
        )
