"""Run as a program that has the hook in its environment: an embedded engine whose steps pass by a server's worker too.

Arguments: the engine's own log, or ``-``; how many requests; the rank of the worker.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from autotune.ddtree.engine import Engine
from autotune.ddtree.running import RunningRequest
from autotune.ddtree.speculation import Speculation
from tests.ddtree.small_models import END_TOKEN, drain, make_models
from tests.ddtree.test_draft_log import TREE, make_requests

VOCABULARY = 12
OPTIONS = dataclasses.replace(TREE, topk=VOCABULARY)
"""All tokens are ranked, so the dense logits of a worker can be had from the ranks."""


class ServerRequest:
    """A request as SGLang holds it."""

    def __init__(self, rid: str, prompt: Sequence[int]) -> None:
        self.rid = rid
        self.origin_input_ids = list(prompt)
        self.output_ids: list[int] = []
        self.has_ended = False

    def finished(self) -> bool:
        return self.has_ended


class Mirror:
    """Drives a worker with the steps of an engine, and checks that the hook changes nothing of them."""

    def __init__(self, rank: int) -> None:
        module = importlib.import_module("sglang.srt.speculative.ddtree_worker")
        self._worker = module.DDTreeWorker(rank)
        self._requests: dict[str, ServerRequest] = {}

    def note(self, request_id: str, tokens: Sequence[int], *, has_ended: bool) -> None:
        request = self._requests.setdefault(request_id, ServerRequest(request_id, ()))
        request.output_ids += tokens
        request.has_ended = has_ended

    def step(self, anchors: Any, rows: Sequence[RunningRequest], scores: Any, tokens: Any) -> None:
        requests = [self._requests[row.request.request_id] for row in rows]
        for request, row in zip(requests, rows, strict=True):
            request.origin_input_ids = list(row.request.prompt_ids)
        logits = torch.zeros_like(scores).scatter_(-1, tokens, scores) + 3.0  # raw: not normalised
        batch = SimpleNamespace(reqs=requests, seq_lens=torch.tensor([row.length for row in rows]))
        draft_input = SimpleNamespace(verified_id=anchors)
        self._worker.logits = logits
        self._worker._prepare_for_speculative_decoding(batch, draft_input)
        assert self._worker.built == (logits, 8, "cpu", draft_input)


def main(own_log: str, count: int, rank: int) -> None:
    mirror = Mirror(rank)
    write_log, note = Speculation._write_log, Speculation.note

    def writing(self: Any, log: Any, anchors: Any, running: Any, scores: Any, tokens: Any) -> None:
        mirror.step(anchors, running, scores, tokens)
        write_log(self, log, anchors, running, scores, tokens)

    def noting(self: Any, request_id: str, tokens: Sequence[int], *, has_ended: bool) -> None:
        mirror.note(request_id, tokens, has_ended=has_ended)
        note(self, request_id, tokens, has_ended=has_ended)

    Speculation._write_log = writing  # type: ignore[method-assign]
    Speculation.note = noting  # type: ignore[method-assign]
    engine = Engine(*make_models(11), dataclasses.replace(OPTIONS, draft_log=own_log), END_TOKEN)
    for request in make_requests(count, 40, ignore_eos=True):
        engine.submit(request)
    drain(engine)
    engine.close()


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
