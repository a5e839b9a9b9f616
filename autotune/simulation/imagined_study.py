"""Which study is made of a surface? Search space, cells and baseline as a study file would say them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.settings import StudySettings, parse_settings
from autotune.trial import ParameterValue

_TEXT = """
name = {name}
seed = 1
{tries}
[baseline]
{baseline}

[server]
command = ["sglang", "serve"]
ready_timeout_s = 1800.0
stall_timeout_s = 300.0
proofs = {proofs}

[benchmark]
{stages}

[evaluation]
problems = 20

[search_space]
name = "imagined"
summary = "budget, topk, window and block of an imaginary DDTree server"

[search_space.parameters.budget]
kind = "int"
low = 0
high = 64
step = {step}
default = 16
flag = "--speculative-ddtree-budget"
flags_beside = ["--speculative-algorithm", "DDTREE"]
omit = 0
reported_as = "speculative_ddtree_budget"
reported_beside = {{ speculative_algorithm = "DDTREE" }}

[search_space.parameters.topk]
{topks}
default = 4
flag = "--speculative-ddtree-topk"
needs = "budget"
reported_as = "speculative_ddtree_topk"

[search_space.parameters.window]
kind = "choice"
choices = {windows}
default = "none"
flag = "--speculative-draft-window-size"
needs = "budget"
omit = "none"
reported_as = "speculative_draft_window_size"

[search_space.parameters.block]
kind = "choice"
choices = {blocks}
default = 16
flag = "--speculative-num-draft-tokens"
needs = "budget"
reported_as = "speculative_num_draft_tokens"

[[search_space.arms]]
name = "plain"
when = "budget == 0"

[[search_space.arms]]
name = "chain"
when = "topk == 1"

[[search_space.arms]]
name = "tree"
when = "true"

{rules}

[[search_space.equivalences]]
name = "chain no longer than the block"
when = "topk == 1 and budget > block - 1"
set = {{ budget = "block - 1" }}
proven_by = "best-first-tree"
because = "with one token per position a tree has one node per drafted position"

[[search_space.equivalences]]
name = "topk within the budget"
when = "budget > 0 and topk > budget"
set = {{ topk = "budget" }}
proven_by = "best-first-tree"
because = "best-first order takes the likelier tokens of a position first, so a tree of n nodes never holds rank n + 1"
"""


@dataclass(frozen=True, slots=True)
class StudyOutline:
    """What differs between the studies of surfaces; ``None`` among windows is the whole context.

    Attributes:
        name: of surface and study.
        contexts: shortest first; each is measured at C=32 and then at C=1.
        topks: of the search space; holds 1 and 4.
        windows: of the search space; ``None`` is among them.
        blocks: of the search space; 16 is among them.
        budget_step: between budgets from 0 to 64.
        is_best_first: equal trees are one configuration; needs every budget and every topk up to the largest.
        rules: what else is required of a configuration, each with its reason.
    """

    name: str
    contexts: Sequence[int]
    topks: Sequence[int]
    windows: Sequence[int | None]
    blocks: Sequence[int]
    budget_step: int = 1
    is_best_first: bool = False
    rules: Sequence[tuple[str, str]] = ()


def outline_study(outline: StudyOutline) -> StudySettings:
    """Return the study of a surface: the chain of a server without trees as its baseline, plain decoding and a shorter one listed."""
    stages = [
        f"[[benchmark.stages]]\nname = {_toml(f'context {context} at C={concurrency}')}\n"
        f"cells = [{{ context = {context}, concurrency = {concurrency} }}]"
        for context in outline.contexts
        for concurrency in (32, 1)
    ]
    tries: Sequence[dict[str, ParameterValue]] = ({"budget": 0}, {"budget": 6, "topk": 1})
    text = _TEXT.format(
        name=_toml(outline.name),
        baseline=_lines({"budget": 8, "topk": 1, "window": None, "block": 16}),
        tries="\n".join(f"[[try]]\n{_lines(values)}" for values in tries),
        proofs=_toml(["best-first-tree"] if outline.is_best_first else []),
        stages="\n".join(stages),
        step=outline.budget_step,
        topks=_domain(outline.topks),
        windows=_toml(["none" if window is None else window for window in outline.windows]),
        blocks=_toml(list(outline.blocks)),
        rules="\n".join(
            f"[[search_space.rules]]\nrequire = {_toml(rule)}\nbecause = {_toml(reason)}"
            for rule, reason in outline.rules
        ),
    )
    return parse_settings(text, f"surface {outline.name}")


def _domain(numbers: Sequence[int]) -> str:
    """Write numbers without gaps as a range, in which samplers know near from far, and others as a choice."""
    low, high = min(numbers), max(numbers)
    if list(numbers) == list(range(low, high + 1)):
        return f'kind = "int"\nlow = {low}\nhigh = {high}'
    return f'kind = "choice"\nchoices = {_toml(list(numbers))}'


def _lines(values: dict[str, ParameterValue]) -> str:
    return "\n".join(f"{name} = {_toml('none' if value is None else value)}" for name, value in values.items())


def _toml(value: object) -> str:
    """Write a text, a number or a list of them: JSON writes these as TOML does."""
    return json.dumps(value, ensure_ascii=False)
