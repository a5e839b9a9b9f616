"""Which tokens should the target verify next? From the drafter's distributions to the trees of a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autotune.ddtree.draft_log import DraftLog
from autotune.ddtree.drafting import Drafting
from autotune.ddtree.model import Drafter
from autotune.ddtree.request import EngineOptions
from autotune.ddtree.running import RunningRequest
from autotune.ddtree.tree import (
    ancestor_matrices,
    ancestor_rows,
    best_first_tree,
    count_nodes,
    effective_width,
    level_wise_trees,
    reachable_depth,
)
from autotune.ddtree.verification import Verifier


@dataclass(frozen=True, slots=True)
class Shape:
    """What the options make of every tree.

    Attributes:
        budget: nodes asked for.
        positions: positions that a tree can reach, the only ones drafted.
        width: tokens kept per position.
        nodes: nodes that every tree really has.
    """

    budget: int
    positions: int
    width: int
    nodes: int

    @classmethod
    def of(cls, options: EngineOptions) -> Shape | None:
        """The shape under these options, ``None`` when they ask for plain decoding."""
        if options.budget is None:
            return None
        if options.draft_log_every_token:  # nothing is accepted, so the smallest tree does
            return cls(budget=1, positions=1, width=1, nodes=1)
        positions = reachable_depth(options.budget, options.block)
        width = effective_width(options.budget, options.block, options.topk, clip_width=options.clip_width)
        return cls(options.budget, positions, width, count_nodes(options.budget, positions, width))


@dataclass(frozen=True, slots=True)
class Proposal:
    """The trees of one step.

    Attributes:
        tokens: ``[B, nodes + 1]``, slot 0 is the last committed token.
        depths: ``[B, nodes + 1]`` or ``[nodes + 1]``.
        ancestors: booleans, a square matrix per tree or one for all.
        parents: parent slots on the device ``[B, nodes]``, where the host does not know them yet.
        parent_lists: parent slots on the host.
        token_lists: tokens of slots 1, 2 ... on the host.
    """

    tokens: Tensor
    depths: Tensor
    ancestors: Tensor
    parents: Tensor | None = None
    parent_lists: Sequence[Sequence[int]] | None = None
    token_lists: Sequence[Sequence[int]] | None = None

    def on_host(self, choices: Tensor) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], list[list[int]]]:
        """Parents, tokens and the target's choices as lists, with one transfer from the device."""
        if self.parent_lists is not None and self.token_lists is not None:
            return self.parent_lists, self.token_lists, choices.tolist()
        if self.parents is None:
            raise ValueError("a proposal knows its parents either on the host or on the device")
        nodes = self.parents.shape[1]
        rows = torch.cat([self.parents, self.tokens[:, 1:], choices], 1).tolist()
        return (
            [row[:nodes] for row in rows],
            [row[nodes : 2 * nodes] for row in rows],
            [row[2 * nodes :] for row in rows],
        )


class Speculation:
    """Drafts, builds trees and feeds accepted tokens back to the drafter.

    Args:
        drafter: trained weights.
        verifier: the target.
        options: of the engine.
        shape: what the options make of every tree.
    """

    def __init__(self, drafter: Drafter, verifier: Verifier, options: EngineOptions, shape: Shape) -> None:
        self._shape = shape
        self._log_windows = options.draft_log_windows
        self._log = None if options.draft_log is None else DraftLog(options.draft_log)
        # A log serves to replay other trees, so it needs the positions beyond this one's reach too.
        self.drafting = Drafting(
            drafter,
            verifier,
            positions=shape.positions if self._log is None else options.block - 1,
            topk=shape.width if self._log is None else options.topk,
            window=options.window,
            max_rows=options.max_running_requests,
            context_length=options.context_length,
        )
        chain = torch.arange(shape.nodes, device=verifier.device)
        self._chain_depths = torch.arange(shape.nodes + 1, device=verifier.device)
        self._chain_ancestors = torch.ones(
            shape.nodes + 1, shape.nodes + 1, dtype=torch.bool, device=verifier.device
        ).tril_()
        self._chain_parents: list[int] = chain.tolist()

    def propose(self, running: Sequence[RunningRequest]) -> Proposal:
        """Build the tree of every row."""
        device = self._chain_depths.device
        anchors = torch.tensor([row.last_token for row in running], device=device)
        lengths = [row.length for row in running]
        is_chain = self._shape.width == 1
        scores, tokens = self.drafting.draft(anchors, lengths, normalised=not is_chain or self._log is not None)
        if self._log is not None:
            self._write_log(self._log, anchors, running, scores, tokens)
        scores = scores[:, : self._shape.positions, : self._shape.width]
        tokens = tokens[:, : self._shape.positions, : self._shape.width]
        if is_chain:
            chain = tokens[:, :, 0]
            parents = [self._chain_parents] * len(running)
            ids = torch.cat([anchors[:, None], chain], 1)
            return Proposal(ids, self._chain_depths, self._chain_ancestors, None, parents, chain.tolist())
        return (
            self._on_host(anchors, scores, tokens) if device.type == "cpu" else self._on_device(anchors, scores, tokens)
        )

    def _write_log(
        self, log: DraftLog, anchors: Tensor, running: Sequence[RunningRequest], scores: Tensor, tokens: Tensor
    ) -> None:
        """Log the drafts of every row, and those that it would have with other windows where they act."""
        for row, row_tokens, row_scores in zip(running, tokens.tolist(), _as_logged(scores), strict=True):
            log.write(row.request.request_id, row.length + 1, row_tokens, row_scores)
        lengths = [row.length for row in running]
        for window in self._log_windows:
            if window >= max(lengths):
                continue
            scores, tokens = self.drafting.draft(anchors, lengths, normalised=True, window=window)
            for row, row_tokens, row_scores in zip(running, tokens.tolist(), _as_logged(scores), strict=True):
                if row.length > window:
                    log.write(row.request.request_id, row.length + 1, row_tokens, row_scores, window)
        log.flush()

    def note(self, request_id: str, tokens: Sequence[int], *, has_ended: bool) -> None:
        """Tell the draft log what a request has committed, and whether that was its end."""
        if self._log is not None:
            self._log.commit(request_id, tokens)
            if has_ended:
                self._log.end(request_id)
                self._log.flush()

    def forget(self, request_id: str) -> None:
        """Tell the draft log that a request was given up."""
        if self._log is not None:
            self._log.forget(request_id)

    def _on_host(self, anchors: Tensor, scores: Tensor, tokens: Tensor) -> Proposal:
        """Build with the heap: for small trees cheaper than launching the operations of the other builder."""
        parents, chosen, depths, ancestors = [], [], [], []
        for row_scores, row_tokens in zip(scores.tolist(), tokens.tolist(), strict=True):
            tree = best_first_tree(row_scores, self._shape.budget)
            parents.append(tree.parents)
            chosen.append([row_tokens[depth][rank] for depth, rank in zip(tree.depths, tree.ranks, strict=True)])
            depths.append([0, *(depth + 1 for depth in tree.depths)])
            ancestors.append(ancestor_rows(tree.parents))
        slots = self._shape.nodes + 1
        matrix = torch.frombuffer(bytearray(b"".join(ancestors)), dtype=torch.bool).view(len(parents), slots, slots)
        ids = torch.cat([anchors[:, None], torch.tensor(chosen)], 1)
        return Proposal(ids, torch.tensor(depths), matrix, None, parents, chosen)

    def _on_device(self, anchors: Tensor, scores: Tensor, tokens: Tensor) -> Proposal:
        """Build with the level-wise builder, so that nothing waits for the device."""
        parents, depths, ranks = level_wise_trees(scores, self._shape.budget)
        flat = depths * self._shape.width + ranks
        ids = torch.cat([anchors[:, None], tokens.reshape(len(anchors), -1).gather(1, flat)], 1)
        return Proposal(
            ids,
            torch.nn.functional.pad(depths + 1, (1, 0)),
            ancestor_matrices(parents, self._shape.positions),
            parents,
        )

    def learn(self, taps: Sequence[Tensor], running: Sequence[RunningRequest], paths: Sequence[Sequence[int]]) -> None:
        """Give the drafter the features of accepted slots, before the rows' lengths move on.

        Args:
            taps: tapped outputs of the verification, each ``[B * S, width]``.
            running: the rows.
            paths: accepted slots of each row, the root first; an empty path is skipped.
        """
        slots = self._shape.nodes + 1
        flat, rows, positions = [], [], []
        for number, (row, path) in enumerate(zip(running, paths, strict=True)):
            for depth in range(max(0, len(path) - self.drafting.window), len(path)):
                flat.append(number * slots + path[depth])
                rows.append(number)
                positions.append(row.length + depth)
        if flat:
            index = torch.tensor(flat, device=taps[0].device)
            self.drafting.remember(torch.cat([tap[index] for tap in taps], -1), rows, positions)

    def close(self) -> None:
        """Close the draft log."""
        if self._log is not None:
            self._log.close()


def _as_logged(scores: Tensor) -> list[list[list[float]]]:
    """Log-probabilities ``[B, positions, topk]`` with five digits after the point: more would only make the log longer."""
    rounded: list[list[list[float]]] = scores.double().round(decimals=5).tolist()
    return rounded
