"""Which flags and variables the embedded server takes, and which combinations it refuses.

Names, defaults and rules follow SGLang and its open DDTree pull request. Nothing here imports torch, so that a refused
argument ends the process at once.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.ddtree.model_sizes import ModelSizes

FlagValue = int | float | str | bool | None
"""What a flag may be set to; ``None`` is "not given"."""

TOPK_VARIABLE: Final = "SGLANG_DDTREE_MAX_TOPK"
DEFAULT_TOPK: Final = 6
DEFAULT_BLOCK: Final = 16
DEFAULT_CONTEXT_LENGTH: Final = 2048
DEFAULT_MAX_RUNNING_REQUESTS: Final = 48
LARGEST_INTEGER: Final = 2**63 - 1
"""Of flags without a bound of their own: larger numbers fit neither the wire nor the logs."""
MAX_BUDGET: Final = 65_536
MAX_RUNNING_REQUESTS: Final = 2**31 - 1
"""Far beyond any memory: the engine refuses what its memory cannot hold, as a real server does."""
MAX_CPU_THREADS: Final = 4096
FULL_TREE_BACKEND: Final = "triton"
PLAIN_BACKEND: Final = "torch_native"


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line flag.

    Attributes:
        names: its spellings, the preferred one first.
        kind: ``int``, ``float``, ``str``, or ``bool`` for a switch without a value.
        help: one sentence for ``--help``.
        choices: the words it may be set to; empty when free.
    """

    names: tuple[str, ...]
    kind: type
    help: str
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name as an identifier: ``--page-size`` is ``page_size``."""
        return self.names[0].removeprefix("--").replace("-", "_")


FLAGS: Final = (
    Flag(("--model-path", "--model"), str, "Directory of the weights; the packaged ones when not given."),
    Flag(("--served-model-name",), str, "Name shown by /v1/models; the model path when not given."),
    Flag(("--host",), str, "Address to listen on (127.0.0.1)."),
    Flag(("--port",), int, "Port to listen on (30000)."),
    Flag(("--device",), str, "Where the model runs (cpu).", ("cpu", "cuda")),
    Flag(("--dtype",), str, "Number format of weights and cache (float32).", ("auto", "float32", "bfloat16")),
    Flag(("--random-seed",), int, "Seed of requests that state none; drawn at random when not given."),
    Flag(("--context-length",), int, "Longest prompt plus answer in tokens (2048, or less if the model is shorter)."),
    Flag(("--max-running-requests",), int, "Requests decoded together; others wait (48)."),
    Flag(("--mem-fraction-static",), float, "Share of the free memory that weights, cache and buffers may take (0.9)."),
    Flag(("--page-size",), int, "Tokens per cache page; DDTREE needs 1 (1)."),
    Flag(
        ("--attention-backend",),
        str,
        "Attention implementation; a full tree needs triton (triton for a full tree, else torch_native).",
        (FULL_TREE_BACKEND, PLAIN_BACKEND),
    ),
    Flag(("--speculative-algorithm",), str, "Speculative decoding; plain decoding when not given.", ("DDTREE",)),
    Flag(
        ("--speculative-draft-model-path",), str, "Directory of the drafter's weights; the model path when not given."
    ),
    Flag(("--speculative-ddtree-budget",), int, "Nodes of the draft tree (block size minus one)."),
    Flag(("--speculative-num-draft-tokens",), int, "Block size: the committed token plus the drafted positions (16)."),
    Flag(("--speculative-dflash-block-size",), int, "The same as --speculative-num-draft-tokens."),
    Flag(("--speculative-draft-window-size",), int, "Context positions the drafter sees; all when not given."),
    Flag(("--speculative-dflash-draft-window-size",), int, "Deprecated name of --speculative-draft-window-size."),
    Flag(
        ("--speculative-accept-threshold-single",),
        float,
        "Accept drafted tokens above this probability; 1.0 is lossless.",
    ),
    Flag(
        ("--speculative-accept-threshold-acc",), float, "Raise accept probabilities by this divisor; 1.0 is lossless."
    ),
    Flag(("--speculative-use-rejection-sampling",), bool, "Not supported with DDTREE: refused."),
    Flag(
        ("--speculative-ddtree-clip-width",),
        bool,
        "Clip topk to max(budget // (block - 1) + 1, 2), as the pull request does.",
    ),
    Flag(("--draft-log",), str, "File that receives the drafter's candidates of each step; slows decoding."),
    Flag(
        ("--draft-log-every-token",),
        bool,
        "Commit one token a step, so that the draft log holds a draft after every token.",
    ),
    Flag(
        ("--draft-log-windows",),
        str,
        "Smaller windows whose drafts are logged too, for example 64,256.",
    ),
    Flag(("--decode-log-interval",), int, "Decode steps between two log lines (40)."),
    Flag(("--enable-metrics",), bool, "Serve Prometheus text at /metrics."),
    Flag(("--skip-server-warmup",), bool, "Report ready without a generation first."),
    Flag(("--cpu-threads",), int, "Threads of the engine; the usable cores when not given."),
)
"""Every flag in the order of ``--help``."""


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """The effective flags of one server process, after defaults and rules.

    Attributes are named as SGLang's server arguments; those that SGLang lacks (``topk``, ``clip_width``, ``draft_log`` and
    its like, ``cpu_threads``) are described at their flag. ``speculative_algorithm`` is ``None`` when decoding plainly, and then
    every other ``speculative_`` attribute but the thresholds is ``None`` too.
    """

    model_path: str
    served_model_name: str
    host: str
    port: int
    device: str
    dtype: str
    random_seed: int
    context_length: int
    max_running_requests: int
    mem_fraction_static: float
    page_size: int
    attention_backend: str
    speculative_algorithm: str | None
    speculative_draft_model_path: str | None
    speculative_ddtree_budget: int | None
    speculative_num_draft_tokens: int | None
    speculative_draft_window_size: int | None
    speculative_accept_threshold_single: float
    speculative_accept_threshold_acc: float
    topk: int | None
    clip_width: bool
    draft_log: str | None
    draft_log_every_token: bool
    draft_log_windows: tuple[int, ...]
    decode_log_interval: int
    enable_metrics: bool
    skip_server_warmup: bool
    cpu_threads: int | None
    notes: tuple[str, ...] = ()


def choose_paths(given: Mapping[str, FlagValue], default_model_path: str) -> tuple[str, str | None]:
    """Return the directories of the target and of the drafter; no drafter while decoding plainly.

    Args:
        given: as in :func:`resolve_flags`.
        default_model_path: directory of the packaged weights.
    """
    values = _Given(given)
    model_path = values.text("model_path") or default_model_path
    if values.text("speculative_algorithm") is None:
        return model_path, None
    return model_path, values.text("speculative_draft_model_path") or model_path


def resolve_flags(
    given: Mapping[str, FlagValue], environment: Mapping[str, str], paths: tuple[str, str | None], sizes: ModelSizes
) -> ServerFlags:
    """Fill in defaults and check every rule.

    Args:
        given: values by :attr:`Flag.key`; missing or ``None`` means not given, ``False`` a switch not set.
        environment: the process environment.
        paths: see :func:`choose_paths`.
        sizes: of the models there.

    Raises:
        ValueError: the flags or variables are refused; the message states the rule.
    """
    notes: list[str] = []
    _refuse_variables(environment)
    values = _Given(given)
    model_path, draft_model_path = paths
    speculation = _resolve_speculation(values, environment, sizes, notes)
    seed = values.integer("random_seed", minimum=0)
    fraction = values.number("mem_fraction_static")
    if fraction is not None and not 0.0 < fraction < 1.0:
        raise ValueError(f"--mem-fraction-static must be between 0 and 1, got {fraction}.")
    full_tree = (
        speculation.budget is not None and speculation.block is not None and speculation.budget > speculation.block - 1
    )
    dtype = values.text("dtype") or "float32"
    return ServerFlags(
        model_path=model_path,
        served_model_name=values.text("served_model_name") or model_path,
        host=values.text("host") or "127.0.0.1",
        port=_or(values.integer("port", minimum=0, maximum=65535), 30000),
        device=values.text("device") or "cpu",
        dtype="float32" if dtype == "auto" else dtype,
        random_seed=random.SystemRandom().randrange(2**30) if seed is None else seed,
        context_length=_or(
            values.integer("context_length", minimum=2, maximum=sizes.max_positions),
            min(DEFAULT_CONTEXT_LENGTH, sizes.max_positions),
        ),
        max_running_requests=_or(
            values.integer("max_running_requests", minimum=1, maximum=MAX_RUNNING_REQUESTS),
            DEFAULT_MAX_RUNNING_REQUESTS,
        ),
        mem_fraction_static=0.9 if fraction is None else fraction,
        page_size=_or(values.integer("page_size", minimum=1), 1),
        attention_backend=values.text("attention_backend") or (FULL_TREE_BACKEND if full_tree else PLAIN_BACKEND),
        speculative_algorithm="DDTREE" if speculation.budget is not None else None,
        speculative_draft_model_path=draft_model_path,
        speculative_ddtree_budget=speculation.budget,
        speculative_num_draft_tokens=speculation.block,
        speculative_draft_window_size=speculation.window,
        speculative_accept_threshold_single=values.threshold("speculative_accept_threshold_single"),
        speculative_accept_threshold_acc=values.threshold("speculative_accept_threshold_acc"),
        topk=speculation.topk,
        clip_width=bool(given.get("speculative_ddtree_clip_width")),
        draft_log=values.text("draft_log"),
        draft_log_every_token=values.is_given("draft_log_every_token"),
        draft_log_windows=_parse_windows(values, speculation),
        decode_log_interval=_or(values.integer("decode_log_interval", minimum=1), 40),
        enable_metrics=bool(given.get("enable_metrics")),
        skip_server_warmup=bool(given.get("skip_server_warmup")),
        cpu_threads=values.integer("cpu_threads", minimum=1, maximum=MAX_CPU_THREADS),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Speculation:
    """The part of the flags that only speculation sets; all ``None`` when decoding plainly."""

    budget: int | None = None
    block: int | None = None
    window: int | None = None
    topk: int | None = None


def _resolve_speculation(
    values: _Given, environment: Mapping[str, str], sizes: ModelSizes, notes: list[str]
) -> _Speculation:
    """Apply the rules of ``--speculative-algorithm DDTREE``, or note which flags do nothing without it."""
    budget = values.integer("speculative_ddtree_budget", maximum=MAX_BUDGET)
    if values.text("speculative_algorithm") is None:
        idle = [flag for flag in FLAGS if flag.key.startswith("speculative_") and values.is_given(flag.key)]
        notes.extend(f"{flag.names[0]} has no effect without --speculative-algorithm DDTREE." for flag in idle)
        if values.text("draft_log") is not None:
            raise ValueError("--draft-log records drafts, which only --speculative-algorithm DDTREE makes.")
        return _Speculation()
    block = _same(
        "--speculative-num-draft-tokens",
        values.integer("speculative_num_draft_tokens", minimum=1, maximum=sizes.max_positions),
        "--speculative-dflash-block-size",
        values.integer("speculative_dflash_block_size", minimum=1, maximum=sizes.max_positions),
    )
    if block is None:
        block = DEFAULT_BLOCK if sizes.max_block is None else sizes.max_block
    elif sizes.max_block is not None and block > sizes.max_block:
        notes.append(f"The drafter was trained for blocks up to {sizes.max_block}: expect less of block {block}.")
    if block < 2:
        raise ValueError(f"--speculative-num-draft-tokens must be at least 2 with DDTREE, got {block}.")
    if budget is not None and budget < 1:
        raise ValueError(f"--speculative-ddtree-budget must be at least 1, got {budget}.")
    budget = block - 1 if budget is None else budget
    if values.is_given("speculative_dflash_draft_window_size"):
        notes.append("--speculative-dflash-draft-window-size is deprecated: use --speculative-draft-window-size.")
    window = _same(
        "--speculative-draft-window-size",
        values.integer("speculative_draft_window_size", minimum=1),
        "--speculative-dflash-draft-window-size",
        values.integer("speculative_dflash_draft_window_size", minimum=1),
    )
    if window is not None and window < block:
        raise ValueError(f"--speculative-draft-window-size must be at least the block size {block}, got {window}.")
    page_size = values.integer("page_size", minimum=1)
    if page_size not in (None, 1):
        raise ValueError(f"DDTREE needs --page-size 1, got {page_size}.")
    backend = values.text("attention_backend")
    if budget > block - 1 and backend not in (None, FULL_TREE_BACKEND):
        raise ValueError(
            f"A full DDTREE tree (budget {budget} above block size minus one, {block - 1}) needs "
            f"--attention-backend {FULL_TREE_BACKEND}, got {backend}."
        )
    if values.is_given("speculative_use_rejection_sampling"):
        raise ValueError("DDTREE does not support --speculative-use-rejection-sampling.")
    draft_log = values.text("draft_log")
    if draft_log is not None:
        _check_writable("--draft-log", Path(draft_log))
    return _Speculation(budget, block, window, _parse_topk(environment, sizes.vocabulary))


def _parse_windows(values: _Given, speculation: _Speculation) -> tuple[int, ...]:
    """Read the windows that are logged beside the drafter's own, ascending."""
    for key in ("draft_log_every_token", "draft_log_windows"):
        if values.is_given(key) and values.text("draft_log") is None:
            raise ValueError(f"{_spell(key)} says what --draft-log holds, which is not given.")
    text = values.text("draft_log_windows")
    if text is None or speculation.block is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"--draft-log-windows must be whole numbers with commas between them, got {text!r}.")
    windows = tuple(sorted({int(word) for word in words}))
    own = math.inf if speculation.window is None else speculation.window
    if windows[0] < speculation.block or windows[-1] >= own:
        limit = "" if speculation.window is None else f" and less than the drafter's own window {speculation.window}"
        raise ValueError(
            f"--draft-log-windows must be at least the block size {speculation.block}{limit}, got {text!r}."
        )
    return windows


def _check_writable(name: str, path: Path) -> None:
    """Refuse a file that cannot be opened for writing, without creating it."""
    if path.is_dir():
        raise ValueError(f"{name} must be a file, but {path} is a directory.")
    if not path.parent.is_dir():
        raise ValueError(f"{name} cannot be written: the directory {path.parent} does not exist.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: no permission for {path}.")


def _parse_topk(environment: Mapping[str, str], vocabulary: int) -> int:
    """Read the tokens kept per drafted position from the environment."""
    text = environment.get(TOPK_VARIABLE, "").strip()
    if not text:
        return min(DEFAULT_TOPK, vocabulary)
    try:
        topk = int(text)
    except ValueError:
        raise ValueError(f"{TOPK_VARIABLE} must be a whole number, got {text!r}.") from None
    if topk < 1:
        raise ValueError(f"{TOPK_VARIABLE} must be at least 1, got {topk}.")
    if topk > vocabulary:
        raise ValueError(f"{TOPK_VARIABLE} must be at most the vocabulary, {vocabulary}, got {topk}.")
    return topk


def _refuse_variables(environment: Mapping[str, str]) -> None:
    """Refuse variables that would falsify figures, or that ask for what this engine does not do."""
    for name, reason in (
        ("SGLANG_SIMULATE_ACC_LEN", "it asks for simulated acceptance, and this server only reports what it measured"),
        ("SGLANG_DDTREE_DEPTH_BONUS", "this tree has no depth bonus"),
        ("SGLANG_DDTREE_RANK_PROBE", "this engine has no rank probe; --draft-log records the ranks"),
    ):
        text = environment.get(name, "").strip().lower()
        if text and not _is_off(text):
            raise ValueError(f"{name}={text} is refused: {reason}. Unset it.")


def _is_off(text: str) -> bool:
    """True for the spellings of zero and false, and for negative numbers."""
    if text in ("false", "no", "off"):
        return True
    try:
        return float(text) <= 0
    except ValueError:
        return False


def _same(first: str, a: int | None, second: str, b: int | None) -> int | None:
    """Return the one value that two spellings of a flag agree on."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"{first} ({a}) and {second} ({b}) are the same setting and must be equal.")
    return b if a is None else a


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class _Given:
    """Typed access to the flags that were given, with messages that name the flag."""

    values: Mapping[str, FlagValue]

    def is_given(self, key: str) -> bool:
        """True when the flag was set to something."""
        return self.values.get(key) not in (None, False)

    def text(self, key: str) -> str | None:
        """Return a string flag; empty text counts as not given."""
        value = self.values.get(key)
        return str(value) if value not in (None, "") else None

    def integer(self, key: str, *, minimum: int | None = None, maximum: int = LARGEST_INTEGER) -> int | None:
        """Return a whole number inside its bounds."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{_spell(key)} must be a whole number, got {value!r}.")  # noqa: TRY004 - as SGLang ends
        if minimum is not None and value < minimum:
            raise ValueError(f"{_spell(key)} must be at least {minimum}, got {value}.")
        if value > maximum:
            raise ValueError(f"{_spell(key)} must be at most {maximum}, got {value}.")
        return value

    def number(self, key: str) -> float | None:
        """Return a finite number."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{_spell(key)} must be a number, got {value!r}.")
        return float(value)

    def threshold(self, key: str) -> float:
        """Return an accept threshold; 1.0, the lossless value, when not given."""
        value = self.number(key)
        if value is None:
            return 1.0
        if not 0.0 < value <= 1.0:
            raise ValueError(f"{_spell(key)} must be above 0 and at most 1, got {value}.")
        return value


def _spell(key: str) -> str:
    return "--" + key.replace("_", "-")
