"""Continuous batching over one target and an optional drafter: which requests are decoded in which step?

One engine belongs to one thread: no method may be called while another runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from autotune.ddtree.acceptance import accepted_path, lossy_path
from autotune.ddtree.model import Drafter, Target
from autotune.ddtree.request import EngineOptions, EngineStats, GenerationRequest, TokenDelta
from autotune.ddtree.running import RunningRequest
from autotune.ddtree.sampling import choose_tokens, inverse_distribution, probabilities, seed_of, uniform
from autotune.ddtree.speculation import Shape, Speculation
from autotune.ddtree.verification import Verifier

MAX_PREFILL_TOKENS = 4096
"""Most tokens of one prefill pass, padding included (a single longer prompt still runs)."""

_COIN, _REFUSED = 1, 2


class RequestRejected(ValueError):
    """This engine can never serve the request; the message says why and fits an answer with status 400."""


class Engine:
    """Decodes requests together, plainly or with draft trees.

    Args:
        target: the model whose distribution every answer follows.
        drafter: proposes the trees; ``None`` exactly when ``options.budget`` is ``None``.
        options: fixed for the life of the engine, but for :meth:`set_thresholds`.
        eos_token_id: the end token.

    Raises:
        ValueError: drafter and budget do not go together, or an option is out of range.
    """

    def __init__(self, target: Target, drafter: Drafter | None, options: EngineOptions, eos_token_id: int) -> None:
        _check_options(target, drafter, options)
        self.options = options
        self.eos_token_id = eos_token_id
        self._vocabulary = target.config.vocabulary
        self._thresholds = (options.threshold_single, options.threshold_acc)
        shape = Shape.of(options)
        with torch.inference_mode():
            self._verifier = Verifier(
                target,
                tapped=shape is not None,
                nodes=0 if shape is None else shape.nodes,
                max_rows=options.max_running_requests,
                context_length=options.context_length,
                device=torch.device(options.device),
                dtype=getattr(torch, options.dtype),
            )
            self._speculation = (
                None if drafter is None or shape is None else Speculation(drafter, self._verifier, options, shape)
            )
            self._root = torch.zeros(1, dtype=torch.long, device=self._verifier.device)
        self._histogram = 0 if shape is None else shape.positions + 1
        self._waiting: deque[GenerationRequest] = deque()
        self._rows: list[RunningRequest | None] = []
        self._aborted: list[TokenDelta] = []
        self.reset_counters()

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request; it is admitted in a later :meth:`step`.

        Raises:
            RequestRejected: empty or unknown tokens, a parameter out of range, an id in flight, or prompt plus answer
                longer than ``options.context_length``.
        """
        reason = _why_rejected(request, self.options.context_length, self._vocabulary)
        if reason is None and request.request_id in self._ids():
            reason = f"a request with the id {request.request_id!r} is already in flight"
        if reason is not None:
            raise RequestRejected(reason)
        self._waiting.append(request)

    def abort(self, request_id: str) -> None:
        """Free the slot of a request now; the next :meth:`step` reports ``"abort"``. Unknown ids are ignored."""
        for request in self._waiting:
            if request.request_id == request_id:
                self._waiting.remove(request)
                self._aborted.append(TokenDelta(request_id, (), "abort", 0, 0))
                return
        for number, row in enumerate(self._rows):
            if row is not None and row.request.request_id == request_id:
                self._aborted.append(row.delta((), "abort"))
                self._rows[number] = None
                if self._speculation is not None:
                    self._speculation.forget(request_id)
                return

    def set_thresholds(self, single: float, acc: float) -> None:
        """Change the accept thresholds of requests that sample; below 1.0 their text is no longer the target's own.

        Raises:
            ValueError: a threshold is not above 0 and at most 1.
        """
        if not (0 < single <= 1 and 0 < acc <= 1):
            raise ValueError(f"accept thresholds must be above 0 and at most 1, not {single} and {acc}")
        self._thresholds = (single, acc)

    def step(self) -> list[TokenDelta]:
        """Admit waiting requests (their first token comes from prefill), then decode one step of the whole batch."""
        deltas, self._aborted = self._aborted, []
        with torch.inference_mode():
            deltas += self._admit()
            self._close_gaps()
            running = [row for row in self._rows if row is not None]
            if running:
                deltas += self._decode(running)
        return deltas

    def has_work(self) -> bool:
        """Whether a request runs or waits, or an abort is still to be reported."""
        return bool(self._waiting or self._aborted) or any(row is not None for row in self._rows)

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.has_work()

    def stats(self) -> EngineStats:
        """Load of this moment and counters since :meth:`reset_counters`."""
        running = [row for row in self._rows if row is not None]
        return EngineStats(
            running=len(running),
            queued=len(self._waiting),
            cache_tokens=sum(row.length for row in running),
            cache_capacity=self.options.max_running_requests * self.options.context_length,
            decode_steps=self._decode_steps,
            verify_calls=self._verify_calls,
            generated_tokens=self._generated_tokens,
            accepted_tokens=self._accepted_tokens,
            prompt_tokens=self._prompt_tokens,
        )

    def reset_counters(self) -> None:
        """Set every counter of :meth:`stats` to zero."""
        self._decode_steps = self._verify_calls = self._generated_tokens = self._accepted_tokens = (
            self._prompt_tokens
        ) = 0

    def close(self) -> None:
        """Close what the engine holds open (the draft log)."""
        if self._speculation is not None:
            self._speculation.close()

    def _ids(self) -> set[str]:
        running = {row.request.request_id for row in self._rows if row is not None}
        return running | {request.request_id for request in self._waiting}

    def _admit(self) -> list[TokenDelta]:
        """Prefill waiting requests into free rows, requests of similar length together."""
        free = [number for number, row in enumerate(self._rows) if row is None]
        free += range(len(self._rows), self.options.max_running_requests)
        admitted = [self._waiting.popleft() for _ in range(min(len(free), len(self._waiting)))]
        admitted.sort(key=lambda request: len(request.prompt_ids))
        deltas: list[TokenDelta] = []
        while admitted:
            count = 1
            while count < len(admitted) and (count + 1) * len(admitted[count].prompt_ids) <= MAX_PREFILL_TOKENS:
                count += 1
            deltas += self._prefill(admitted[:count], free[:count])
            admitted, free = admitted[count:], free[count:]
        return deltas

    def _prefill(self, requests: Sequence[GenerationRequest], numbers: Sequence[int]) -> list[TokenDelta]:
        """Run the prompts of these requests into these cache rows and report each one's first token."""
        logits, features = self._verifier.prefill([request.prompt_ids for request in requests], numbers)
        lengths = [len(request.prompt_ids) for request in requests]
        rows = [
            RunningRequest(
                request,
                seed_of(request, self.options.random_seed),
                length,
                request.prompt_ids[-1],
                accepted_histogram=[0] * self._histogram,
            )
            for request, length in zip(requests, lengths, strict=True)
        ]
        if self._speculation is not None and features is not None:
            self._speculation.drafting.remember_prompts(features, lengths, numbers)
        first = self._choose(logits[:, None], rows, lengths, self._root)[:, 0].tolist()
        self._rows += [None] * (max(numbers) + 1 - len(self._rows))
        self._prompt_tokens += sum(lengths)
        deltas = []
        for row, number, token in zip(rows, numbers, first, strict=True):
            shown, reason = row.commit([token], self.eos_token_id)
            row.last_token = token
            self._rows[number] = row if reason is None else None
            if self._speculation is not None:
                self._speculation.note(row.request.request_id, [token], has_ended=reason is not None)
            deltas.append(row.delta(shown, reason))
        return deltas

    def _close_gaps(self) -> None:
        """Move the last rows into the rows of ended requests, so that the running ones are the first rows."""
        number = 0
        while number < len(self._rows):
            if self._rows[number] is not None:
                number += 1
                continue
            last = self._rows.pop()
            if last is None:
                continue
            self._rows[number] = last
            self._verifier.cache.copy_row(len(self._rows), number, last.length)
            if self._speculation is not None:
                self._speculation.drafting.cache.copy_row(
                    len(self._rows), number, self._speculation.drafting.cache.slots
                )

    def _decode(self, running: list[RunningRequest]) -> list[TokenDelta]:
        """One step of the whole batch; rows that end leave a gap."""
        if self._speculation is None:
            outcomes = self._decode_plainly(running)
        else:
            outcomes = self._decode_with_trees(running, self._speculation)
        self._decode_steps += 1
        self._verify_calls += len(running)
        deltas = []
        for number, (row, tokens) in enumerate(zip(running, outcomes, strict=True)):
            before = row.completion_tokens
            shown, reason = row.commit(tokens, self.eos_token_id)
            produced = row.completion_tokens - before
            accepted = min(len(tokens) - 1, produced)
            row.verify_steps += 1
            row.length += len(tokens)
            row.last_token = tokens[-1]
            if self._histogram:
                row.accepted_histogram[accepted] += 1
            self._generated_tokens += produced
            self._accepted_tokens += accepted
            if reason is not None:
                self._rows[number] = None
            if self._speculation is not None:
                self._speculation.note(row.request.request_id, tokens[:produced], has_ended=reason is not None)
            deltas.append(row.delta(shown, reason))
        return deltas

    def _decode_plainly(self, running: list[RunningRequest]) -> list[list[int]]:
        """Return the next token of every row."""
        anchors = torch.tensor([[row.last_token] for row in running], device=self._verifier.device)
        logits, _ = self._verifier.verify(anchors, self._root, None, [row.length for row in running])
        choices: list[list[int]] = self._choose(
            logits, running, [row.length + 1 for row in running], self._root
        ).tolist()
        return choices

    def _decode_with_trees(self, running: list[RunningRequest], speculation: Speculation) -> list[list[int]]:
        """Return the accepted tokens and the bonus token of every row."""
        proposal = speculation.propose(running)
        lengths = [row.length for row in running]
        logits, taps = self._verifier.verify(proposal.tokens, proposal.depths, proposal.ancestors, lengths)
        choices = self._choose(logits, running, [length + 1 for length in lengths], proposal.depths)
        parents, tokens, chosen = proposal.on_host(choices)
        paths = [accepted_path(*row) for row in zip(parents, tokens, chosen, strict=True)]
        bonuses = [choice[path[-1]] for choice, path in zip(chosen, paths, strict=True)]
        if min(self._thresholds) < 1.0:
            for number, row in enumerate(running):
                if row.request.temperature > 0:
                    paths[number], bonuses[number] = self._accept_lossily(
                        row, logits[number], parents[number], tokens[number]
                    )
        if self.options.draft_log_every_token:
            paths, bonuses = [[0] for _ in paths], [choice[0] for choice in chosen]
        moves = [
            (number, row.length + slot, row.length + depth)
            for number, (row, path) in enumerate(zip(running, paths, strict=True))
            for depth, slot in enumerate(path)
            if slot != depth
        ]
        if moves:
            self._verifier.cache.copy_slots(*zip(*moves, strict=True))
        speculation.learn(taps, running, paths)
        return [
            [*(tokens[number][slot - 1] for slot in path[1:]), bonuses[number]] for number, path in enumerate(paths)
        ]

    def _accept_lossily(
        self, row: RunningRequest, logits: Tensor, parents: Sequence[int], tokens: Sequence[int]
    ) -> tuple[list[int], int]:
        """Accept by the thresholds; logits are ``[S, vocabulary]``. Returns the path and the bonus token."""
        weights = probabilities(logits[None], [row.request])[0]
        index = torch.tensor([list(parents), list(tokens)], device=logits.device)
        children: list[float] = weights[index[0], index[1]].tolist()
        path, refused = lossy_path(
            parents, children, lambda depth: uniform(row.seed, row.length + 1 + depth, _COIN), *self._thresholds
        )
        rest = weights[path[-1]].clone()
        if refused:
            own = [token for parent, token in zip(parents, tokens, strict=True) if parent == path[-1]]
            rest[own] = 0.0
            if not bool(rest.sum() > 0):
                rest = weights[path[-1]]
        toss = torch.tensor(uniform(row.seed, row.length + len(path), _REFUSED), device=logits.device)
        return path, int(inverse_distribution(rest, toss))

    def _choose(
        self, logits: Tensor, rows: Sequence[RunningRequest], positions: Sequence[int], depths: Tensor
    ) -> Tensor:
        """The target's choices ``[B, S]``; an end token before ``min_new_tokens`` is ruled out first."""
        for number, row in enumerate(rows):
            missing = row.request.min_new_tokens - row.completion_tokens
            if missing > 0:
                own = depths if depths.dim() == 1 else depths[number]
                early = torch.where(own < missing, -torch.inf, 0.0).to(logits.dtype)
                logits[number, :, self.eos_token_id] += early
        return choose_tokens(logits, [row.request for row in rows], [row.seed for row in rows], positions, depths)


def _check_options(target: Target, drafter: Drafter | None, options: EngineOptions) -> None:
    """Raise ``ValueError`` naming the first option that cannot work."""
    if (drafter is None) != (options.budget is None):
        raise ValueError("a drafter is needed exactly when a budget is given")
    if options.dtype not in ("float32", "bfloat16", "float64"):
        raise ValueError(f"dtype must be float32, bfloat16 or float64, not {options.dtype!r}")
    if options.context_length > target.config.max_positions:
        raise ValueError(f"context_length {options.context_length} exceeds the model's {target.config.max_positions}")
    limits = {"max_running_requests": (options.max_running_requests, 1), "context_length": (options.context_length, 2)}
    if options.budget is not None:
        limits |= {"budget": (options.budget, 1), "topk": (options.topk, 1), "block": (options.block, 2)}
        limits |= {"window": (1 if options.window is None else options.window, 1)}
        if options.topk > target.config.vocabulary:
            raise ValueError(f"topk {options.topk} exceeds the vocabulary of {target.config.vocabulary}")
    for name, (value, least) in limits.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")


def _why_rejected(request: GenerationRequest, context_length: int, vocabulary: int) -> str | None:
    """What makes this request impossible to serve; ``None`` when nothing does."""
    if not request.prompt_ids:
        return "the prompt is empty"
    if min(request.prompt_ids) < 0 or max(request.prompt_ids) >= vocabulary:
        return f"the prompt holds token ids outside 0 to {vocabulary - 1}"
    if request.max_new_tokens < 1:
        return f"max_new_tokens must be at least 1, not {request.max_new_tokens}"
    if not 0 <= request.min_new_tokens <= request.max_new_tokens:
        return f"min_new_tokens must be between 0 and max_new_tokens, not {request.min_new_tokens}"
    if request.temperature < 0:
        return f"temperature must not be negative, not {request.temperature}"
    if not 0 < request.top_p <= 1:
        return f"top_p must be above 0 and at most 1, not {request.top_p}"
    if request.top_k != -1 and request.top_k < 1:
        return f"top_k must be at least 1, or -1 for all, not {request.top_k}"
    total = len(request.prompt_ids) + request.max_new_tokens
    if total > context_length:
        return f"the prompt of {len(request.prompt_ids)} tokens and {request.max_new_tokens} new ones need {total} positions, the context has {context_length}"
    return None
