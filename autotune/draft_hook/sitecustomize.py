"""Which drafts did this SGLang server make? Writes them as JSON lines, in a server's processes, for a profile boot only.

Python loads a module of this name at its start from a folder on ``PYTHONPATH``, in spawned processes too. It needs nothing
but the standard library, waits for the DDTree worker of SGLang's open pull request 29907, and wraps the two functions in
which drafts pass by. Where anything is not as expected it says so once on standard error and does nothing any more.

The lines are those that ``autotune/replay/draft_log.py`` reads. Variables:

- ``AUTOTUNE_DRAFT_LOG``: the file to append to; without it nothing is done at all.
- ``AUTOTUNE_DRAFT_LOG_TOPK``: tokens for each position, 8 when unset.
- ``AUTOTUNE_DRAFT_LOG_LIMIT_BYTES``: the file never grows beyond so much, 256 MiB when unset.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_PACKAGE = "sglang.srt.speculative"
_WORKER_MODULE = "sglang.srt.speculative.ddtree_worker"
_WORKER = "DDTreeWorker"
_PREPARE = "_prepare_for_speculative_decoding"
_BUILD = "build_ddtree_tree"
_LAST_TOKENS = ("verified_id", "bonus_tokens")
"""Names of the last committed tokens: of pull request 29907, and of 27509 before it."""
_LIMIT_BYTES = 256 * 2**20
_KEEP_FREE_BYTES = 64 * 2**20
"""The log leaves so much of its file system free: below ``/run`` systemd itself needs room."""
_LEAST_LOGPROB = -1e4
"""Stands for a token that the drafter cannot choose: the log holds finite numbers only."""


class _Unexpected(Exception):
    """Something of the server is not as this hook knows it."""


class _Hook:
    """Logs the drafts of one process.

    Args:
        path: file to append to.
        topk: tokens for each position.
        limit_bytes: largest size of the file.
    """

    def __init__(self, path: str, topk: int, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._path = path
        self._topk = topk
        self._limit_bytes = limit_bytes
        self._file: int | None = None
        self._is_over = False
        self._step: tuple[Any, Any] | None = None
        self._written: dict[str, tuple[Any, int]] = {}
        """Requests of the step before, with how many of their tokens are in the log."""

    def step_aside(self, why: str) -> None:
        """Say once why nothing is logged any more."""
        if self._is_over:
            return
        self._is_over = True
        self._step = None
        self._written.clear()
        try:
            sys.stderr.write(f"autotune draft hook steps aside: {why}\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # a process without a standard error
            return

    def guard(self, act: Callable[[], None]) -> None:
        """Do something that must never reach the server, whatever goes wrong in it."""
        if self._is_over:
            return
        try:
            act()
        except _Unexpected as error:
            self.step_aside(str(error))
        except Exception as error:  # noqa: BLE001  # a server must not fail for its log
            self.step_aside(f"{type(error).__name__}: {error}")

    def patch(self, module: ModuleType) -> None:
        """Wrap what the drafts pass by in the worker's module, all of it or nothing.

        Raises:
            _Unexpected: the module is laid out in another way.
        """
        worker, build = getattr(module, _WORKER, None), getattr(module, _BUILD, None)
        prepare = getattr(worker, _PREPARE, None)
        if not isinstance(worker, type) or not callable(prepare) or not callable(build):
            missing = _WORKER if not isinstance(worker, type) else _PREPARE if not callable(prepare) else _BUILD
            raise _Unexpected(f"{_WORKER_MODULE} has no {missing}")
        for function, names in ((prepare, ("batch", "draft_input")), (build, ("draft_logits",))):
            found = inspect.signature(function).parameters
            absent = [name for name in names if name not in found]
            if absent:
                raise _Unexpected(f"{function.__qualname__} takes no {absent[0]}: {', '.join(found)}")
        prepare_takes = inspect.signature(prepare)
        build_takes = inspect.signature(build)

        @functools.wraps(prepare)
        def preparing(*args: Any, **kwargs: Any) -> Any:
            self.guard(lambda: self._begin(prepare_takes.bind(*args, **kwargs).arguments))
            try:
                return prepare(*args, **kwargs)
            finally:
                self._step = None

        @functools.wraps(build)
        def building(*args: Any, **kwargs: Any) -> Any:
            self.guard(lambda: self._log(build_takes.bind(*args, **kwargs).arguments["draft_logits"]))
            return build(*args, **kwargs)

        setattr(worker, _PREPARE, preparing)
        setattr(module, _BUILD, building)

    def _begin(self, arguments: dict[str, Any]) -> None:
        """Remember whose drafts come next; only one of the processes that share a model logs them."""
        worker = arguments["self"]
        rank = getattr(worker, "tp_rank", None)
        if not isinstance(rank, int):
            raise _Unexpected(f"{_WORKER} has no tp_rank")
        self._step = (arguments["batch"], arguments["draft_input"]) if rank == 0 else None

    def _log(self, logits: Any) -> None:
        """Write a line for each request of the step, and one for each that has ended since the step before."""
        if self._step is None:
            return
        batch, draft_input = self._step
        requests = list(_need(batch, "reqs"))
        lengths = [int(length) for length in _need(batch, "seq_lens").tolist()]
        name = next((name for name in _LAST_TOKENS if getattr(draft_input, name, None) is not None), None)
        if name is None:
            raise _Unexpected(f"the draft's input has neither {' nor '.join(_LAST_TOKENS)}")
        last = [int(token) for token in getattr(draft_input, name).reshape(-1).tolist()]
        shape = tuple(_need(logits, "shape"))
        if len(shape) != 3 or shape[0] != len(requests) or shape[1] < 1:
            raise _Unexpected(f"drafts of the shape {shape} for {len(requests)} requests")
        if not len(requests) == len(lengths) == len(last):
            raise _Unexpected(f"{len(requests)} requests with {len(lengths)} lengths and {len(last)} last tokens")
        values, tokens = logits.float().topk(min(self._topk, shape[2]), dim=-1)
        scores = (values - logits.float().logsumexp(-1, keepdim=True)).clamp(_LEAST_LOGPROB, 0.0)
        written = dict(self._written)
        lines: list[dict[str, Any]] = []
        for request, length, token, ids, logprobs in zip(
            requests, lengths, last, tokens.tolist(), scores.tolist(), strict=True
        ):
            rid = str(_need(request, "rid"))
            text = [int(each) for each in _need(request, "output_ids")]
            prompt = len(_need(request, "origin_input_ids"))
            if not text or text[-1] != token or prompt + len(text) != length + 1:
                raise _Unexpected(
                    f"a request of {prompt} + {len(text)} tokens is drafted for at {length}, behind the token {token}"
                )
            known, count = written.pop(rid, (request, 0))
            if known is not request:  # another request of the same name
                raise _Unexpected(f"two requests are called {rid}")
            rounded = [[round(each, 5) for each in row] for row in logprobs]
            lines.append(
                {"rid": rid, "committed": text[count:], "position": length + 1, "tokens": ids, "logprobs": rounded}
            )
            self._written[rid] = (request, len(text))
        for rid, (request, count) in written.items():
            if not _is_finished(request):  # it waits, for memory for instance, and comes back
                continue
            lines.append({"rid": rid, "committed": [int(each) for each in request.output_ids][count:]})
            del self._written[rid]
        self._append(lines)

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write whole lines at once, so that several processes can write to one file."""
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        if os.fstat(self._file).st_size + len(data) > self._limit_bytes:
            raise _Unexpected(f"{self._path} may not grow beyond {self._limit_bytes} bytes")
        room = os.fstatvfs(self._file)
        if room.f_bavail * room.f_frsize < _KEEP_FREE_BYTES + len(data):
            raise _Unexpected(f"{self._path} would leave less than {_KEEP_FREE_BYTES} bytes of its file system free")
        if os.write(self._file, data) != len(data):
            raise _Unexpected(f"{self._path} takes no more: the disk is full")


def _need(owner: Any, name: str) -> Any:
    """Return an attribute.

    Raises:
        _Unexpected: it has none of this name.
    """
    value = getattr(owner, name, None)
    if value is None:
        raise _Unexpected(f"{type(owner).__name__} has no {name}")
    return value


def _is_finished(request: Any) -> bool:
    """Whether a request has ended; one that does not tell has."""
    finished = getattr(request, "finished", None)
    return bool(finished()) if callable(finished) else True


class _Loader(importlib.abc.Loader):
    """Loads the worker's module as its own loader does, then hands it to the hook."""

    def __init__(self, loader: Any, hook: _Hook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Let the module's own loader do it."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Let the module's own loader do it, then patch."""
        self._loader.exec_module(module)
        self._hook.guard(lambda: self._hook.patch(module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of the worker's module, and sees early that a server has none."""

    def __init__(self, hook: _Hook) -> None:
        self._hook = hook

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find nothing itself, but wrap what is found for one module."""
        if fullname == _PACKAGE:
            self._hook.guard(lambda: self._look_ahead(path))
        if fullname != _WORKER_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, self._hook)
        return spec

    @staticmethod
    def _look_ahead(path: Sequence[str] | None) -> None:
        package = importlib.machinery.PathFinder.find_spec(_PACKAGE, path)
        folders = None if package is None else package.submodule_search_locations
        if folders is not None and importlib.machinery.PathFinder.find_spec(_WORKER_MODULE, folders) is None:
            raise _Unexpected(f"this SGLang has no {_WORKER_MODULE}")


def _install(path: str) -> None:
    """Wait for the worker."""
    numbers = {"AUTOTUNE_DRAFT_LOG_TOPK": 8, "AUTOTUNE_DRAFT_LOG_LIMIT_BYTES": _LIMIT_BYTES}
    for name, usual in numbers.items():
        text = os.environ.get(name) or str(usual)
        if not (text.isdecimal() and int(text) > 0):
            _Hook(path, 0).step_aside(f"{name} is {text!r}, not a number above 0")
            return
        numbers[name] = int(text)
    sys.meta_path.insert(0, _Finder(_Hook(path, *numbers.values())))


def _load_shadowed() -> None:
    """Load the module of this name that would have been loaded without this one, as distributions have one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # loaded at every start: no pathlib
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]  # noqa: PTH100  # same
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get("AUTOTUNE_DRAFT_LOG"):
        _install(os.environ["AUTOTUNE_DRAFT_LOG"])
    _load_shadowed()
