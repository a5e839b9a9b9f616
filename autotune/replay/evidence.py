"""From a log of drafts to what a study knows of the accept lengths of its configurations. Pure.

Accept length depends on the tree, the window and the texts, and neither on the machine nor on the concurrency, so one
profile boot tells it for all configurations whose window was logged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from pydantic import TypeAdapter

from autotune.replay.draft_log import LoggedAnswer
from autotune.replay.grown_tree import GrownTrees
from autotune.replay.table import AcceptLengthTable, pool, predict
from autotune.replay.tree_shape import find_shape
from autotune.sampling.base import AcceptLengthEvidence
from autotune.search_space import SearchSpace
from autotune.trial import TrialKind, TrialRecord, TrialState

TABLES: Final = "accept_lengths"
"""Attribute of a profile trial that holds its tables."""

_ADAPTER: Final = TypeAdapter(tuple[AcceptLengthTable, ...])


def replay(
    answers: Mapping[int, Sequence[LoggedAnswer]],
    weights: Mapping[int, float],
    space: SearchSpace,
    rule: GrownTrees | None = None,
) -> tuple[AcceptLengthTable, ...]:
    """Predict the accept length of every tree of a search space.

    Args:
        answers: what was logged at each context length; the server logged with the largest window of the space.
        weights: of the context lengths.
        space: whose trees are walked.
        rule: by which the server builds them; ``None``: best-first.

    Returns:
        A table for each window and block that the log can tell, pooled over contexts; the largest window first.
    """
    drafts = [draft for each in answers.values() for answer in each for draft in answer.drafts.get(None, ())]
    shapes = [shape for item in space.configurations if (shape := find_shape(space, item)) is not None]
    if not drafts or not shapes:
        return ()
    depths, ranks = drafts[0][1].shape
    budget = max(shape.budget for shape in shapes)
    topks = sorted({shape.topk for shape in shapes if shape.topk <= ranks})
    blocks = sorted({shape.block for shape in shapes if shape.block <= depths + 1})
    widest = max((shape.window for shape in shapes), key=_width)
    windows = sorted({shape.window for shape in shapes}, key=_width, reverse=True)
    reach = max(answer.longest_context for each in answers.values() for answer in each)
    tables: list[AcceptLengthTable] = []
    for window, block in itertools.product(windows, blocks):
        whole = next((table for table in tables if (table.window, table.block) == (widest, block)), None)
        if whole is not None and _width(window) >= reach:  # it acts nowhere
            tables.append(replace(whole, window=window))
            continue
        parts: list[AcceptLengthTable] = []
        for each in answers.values():
            texts = [answer.with_window(None if window == widest else window) for answer in each]
            known = [text for text in texts if text is not None]
            if len(known) < len(texts):  # what is known would be the shorter answers
                continue
            table = predict(known, window=window, block=block, topks=topks, largest_budget=budget, rule=rule)
            parts += [] if table is None else [table]
        if len(parts) == len(answers):
            tables.append(pool(parts, [weights[context] for context in answers]))
    return tuple(tables)


def _width(window: int | None) -> float:
    return math.inf if window is None else window


def dump_tables(tables: Sequence[AcceptLengthTable]) -> list[dict[str, Any]]:
    """Return tables as JSON values."""
    return [asdict(table) for table in tables]


def find_evidence(trials: Sequence[TrialRecord], space: SearchSpace) -> tuple[AcceptLengthEvidence, ...]:
    """Return what the last complete profile of a study tells about its configurations, in the order of the space.

    A configuration that it cannot tell about (plain decoding, a window that was not logged, more ranks than were kept) is
    left out.

    Raises:
        pydantic.ValidationError: the tables were not written by :func:`dump_tables`.
    """
    profiles = [
        trial
        for trial in trials
        if trial.kind is TrialKind.PROFILE and trial.state is TrialState.COMPLETE and TABLES in trial.attributes
    ]
    if not profiles:
        return ()
    stored = _ADAPTER.validate_python(profiles[-1].attributes[TABLES])
    tables = {(table.window, table.block): table for table in stored}
    evidence = []
    for configuration in space.configurations:
        shape = find_shape(space, configuration)
        table = None if shape is None else tables.get((shape.window, shape.block))
        found = None if table is None or shape is None else table.find(shape.budget, shape.topk)
        if found is not None:
            source = f"drafts replayed from trial {profiles[-1].number}"
            evidence.append(AcceptLengthEvidence(configuration, found[0], found[1], source))
    return tuple(evidence)
