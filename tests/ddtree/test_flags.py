from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autotune.ddtree.flags import FLAGS, FlagValue, ServerFlags, choose_paths, resolve_flags
from autotune.ddtree.model_sizes import ModelSizes

SIZES = ModelSizes(max_positions=4096, vocabulary=2048, max_block=16)


def resolve(
    environment: dict[str, str] | None = None, /, *, sizes: ModelSizes = SIZES, **given: FlagValue
) -> ServerFlags:
    return resolve_flags(given, environment or {}, choose_paths(given, "/weights"), sizes)


def ddtree(
    environment: dict[str, str] | None = None, /, *, sizes: ModelSizes = SIZES, **given: FlagValue
) -> ServerFlags:
    return resolve(environment, sizes=sizes, speculative_algorithm="DDTREE", **given)


def test_without_flags_the_server_decodes_plainly_with_the_packaged_weights() -> None:
    flags = resolve(random_seed=5)

    assert flags.speculative_algorithm is None
    assert flags.speculative_ddtree_budget is None
    assert flags.topk is None
    assert flags.speculative_draft_model_path is None
    assert (flags.model_path, flags.dtype, flags.device, flags.page_size) == ("/weights", "float32", "cpu", 1)
    assert flags.notes == ()


def test_a_budget_alone_is_enough_for_ddtree() -> None:
    flags = ddtree(speculative_ddtree_budget=24)

    assert flags.speculative_ddtree_budget == 24
    assert flags.speculative_num_draft_tokens == 16
    assert flags.topk == 6
    assert flags.speculative_draft_model_path == "/weights"
    assert flags.attention_backend == "triton"
    assert flags.page_size == 1
    assert flags.max_running_requests == 48
    assert flags.speculative_draft_window_size is None


@pytest.mark.parametrize(("block", "budget"), [(None, 15), (8, 7), (2, 1)])
def test_the_budget_defaults_to_the_block_minus_one(block: int | None, budget: int) -> None:
    assert ddtree(speculative_num_draft_tokens=block).speculative_ddtree_budget == budget


def test_the_block_defaults_to_the_drafters_and_a_larger_one_is_noted() -> None:
    small = ModelSizes(max_positions=512, vocabulary=2048, max_block=8)

    assert ddtree(sizes=small).speculative_num_draft_tokens == 8
    assert ddtree(sizes=small).notes == ()
    assert "up to 8" in ddtree(sizes=small, speculative_num_draft_tokens=12).notes[0]


def test_the_context_is_at_most_the_models() -> None:
    assert resolve().context_length == 2048
    assert resolve(sizes=ModelSizes(max_positions=512, vocabulary=2048, max_block=None)).context_length == 512


def test_topk_comes_from_its_environment_variable() -> None:
    assert ddtree({"SGLANG_DDTREE_MAX_TOPK": " 3 "}).topk == 3
    assert ddtree({"SGLANG_DDTREE_MAX_TOPK": ""}).topk == 6


def test_a_bad_topk_does_not_matter_while_decoding_plainly() -> None:
    assert resolve({"SGLANG_DDTREE_MAX_TOPK": "0"}).topk is None


def test_both_spellings_of_block_and_window_are_accepted() -> None:
    flags = ddtree(speculative_dflash_block_size=8, speculative_dflash_draft_window_size=64)

    assert flags.speculative_num_draft_tokens == 8
    assert flags.speculative_draft_window_size == 64
    assert [note.split(":")[0] for note in flags.notes] == ["--speculative-dflash-draft-window-size is deprecated"]
    assert ddtree(speculative_dflash_block_size=8, speculative_num_draft_tokens=8).speculative_num_draft_tokens == 8


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"speculative_ddtree_budget": 0}, "--speculative-ddtree-budget must be at least 1"),
        ({"speculative_ddtree_budget": -3}, "--speculative-ddtree-budget must be at least 1"),
        ({"speculative_num_draft_tokens": 0}, "--speculative-num-draft-tokens must be at least 1"),
        ({"speculative_num_draft_tokens": 1}, "--speculative-num-draft-tokens must be at least 2"),
        ({"speculative_num_draft_tokens": 8, "speculative_dflash_block_size": 9}, "must be equal"),
        ({"speculative_draft_window_size": 0}, "--speculative-draft-window-size must be at least 1"),
        ({"speculative_draft_window_size": 15}, "at least the block size 16"),
        ({"speculative_draft_window_size": 64, "speculative_dflash_draft_window_size": 65}, "must be equal"),
        ({"page_size": 16}, "--page-size 1"),
        ({"speculative_ddtree_budget": 16, "attention_backend": "torch_native"}, "--attention-backend triton"),
        ({"speculative_use_rejection_sampling": True}, "--speculative-use-rejection-sampling"),
        ({"speculative_accept_threshold_single": 0.0}, "--speculative-accept-threshold-single"),
        ({"speculative_accept_threshold_acc": 1.5}, "--speculative-accept-threshold-acc"),
        ({"speculative_accept_threshold_acc": float("nan")}, "--speculative-accept-threshold-acc"),
        ({"max_running_requests": 0}, "--max-running-requests must be at least 1"),
        ({"mem_fraction_static": 1.0}, "--mem-fraction-static"),
        ({"mem_fraction_static": 0.0}, "--mem-fraction-static"),
        ({"context_length": 1}, "--context-length"),
        ({"context_length": 4097}, "--context-length must be at most 4096"),
        ({"port": 65536}, "--port must be at most 65535"),
        ({"decode_log_interval": 0}, "--decode-log-interval"),
        ({"cpu_threads": 0}, "--cpu-threads"),
        ({"random_seed": -1}, "--random-seed"),
        ({"random_seed": 2**63}, "--random-seed must be at most"),
        ({"decode_log_interval": 10**20}, "--decode-log-interval must be at most"),
        ({"speculative_draft_window_size": 10**20}, "--speculative-draft-window-size must be at most"),
        ({"max_running_requests": 2**31}, "--max-running-requests must be at most"),
        ({"cpu_threads": 10**9}, "--cpu-threads must be at most"),
        ({"speculative_ddtree_budget": 10**9}, "--speculative-ddtree-budget must be at most"),
        ({"speculative_num_draft_tokens": 4097}, "--speculative-num-draft-tokens must be at most 4096"),
        ({"speculative_dflash_block_size": 4097}, "--speculative-dflash-block-size must be at most 4096"),
    ],
)
def test_a_broken_rule_is_refused_with_a_message_that_states_it(given: dict[str, FlagValue], word: str) -> None:
    given = {"speculative_algorithm": "DDTREE", **given}

    with pytest.raises(ValueError, match=word):
        resolve_flags(given, {}, choose_paths(given, "/weights"), SIZES)


def test_a_chain_may_use_any_backend() -> None:
    assert ddtree(speculative_ddtree_budget=15, attention_backend="torch_native").attention_backend == "torch_native"
    assert ddtree(speculative_ddtree_budget=15).attention_backend == "torch_native"


def test_page_size_is_free_while_decoding_plainly() -> None:
    assert resolve(page_size=16).page_size == 16


@pytest.mark.parametrize("text", ["0", "-1", "x", "2.5", "2049"])
def test_a_bad_topk_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SGLANG_DDTREE_MAX_TOPK"):
        ddtree({"SGLANG_DDTREE_MAX_TOPK": text})


@pytest.mark.parametrize("name", ["SGLANG_SIMULATE_ACC_LEN", "SGLANG_DDTREE_DEPTH_BONUS", "SGLANG_DDTREE_RANK_PROBE"])
@pytest.mark.parametrize(
    ("text", "refused"), [("4", True), ("true", True), ("0", False), ("", False), ("false", False), ("-1", False)]
)
def test_variables_that_would_falsify_figures_are_refused(name: str, text: str, refused: bool) -> None:
    if not refused:
        resolve({name: text})
        return
    with pytest.raises(ValueError, match=name):
        resolve({name: text})


def test_flags_that_do_nothing_are_named() -> None:
    flags = resolve(speculative_ddtree_budget=8, speculative_draft_window_size=4)

    assert flags.speculative_ddtree_budget is None
    assert [note.split(" ")[0] for note in flags.notes] == [
        "--speculative-ddtree-budget",
        "--speculative-draft-window-size",
    ]


def test_a_draft_log_needs_drafts() -> None:
    with pytest.raises(ValueError, match="--draft-log"):
        resolve(draft_log="/tmp/x")


def test_a_draft_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "is a directory"), (tmp_path / "missing" / "log", "does not exist")):
        with pytest.raises(ValueError, match=f"--draft-log .*{reason}"):
            ddtree(draft_log=str(path))

    assert ddtree(draft_log=str(tmp_path / "log")).draft_log == str(tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_what_a_draft_log_holds_can_be_chosen(tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    assert ddtree(draft_log=log).draft_log_windows == ()
    assert not ddtree(draft_log=log).draft_log_every_token
    flags = ddtree(draft_log=log, draft_log_every_token=True, draft_log_windows="256, 64,64")
    assert flags.draft_log_every_token
    assert flags.draft_log_windows == (64, 256)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"draft_log_windows": "64", "draft_log": None}, "--draft-log-windows says what --draft-log holds"),
        ({"draft_log_every_token": True, "draft_log": None}, "--draft-log-every-token says what --draft-log holds"),
        ({"draft_log_windows": "64,none"}, "whole numbers"),
        ({"draft_log_windows": "64,"}, "whole numbers"),
        ({"draft_log_windows": "8"}, "at least the block size 16, got '8'"),
        (
            {"draft_log_windows": "64,128", "speculative_draft_window_size": 128},
            "less than the drafter's own window 128",
        ),
    ],
)
def test_a_draft_log_of_what_no_drafter_has_is_refused(
    tmp_path: Path, given: dict[str, FlagValue], reason: str
) -> None:
    values: dict[str, Any] = {"draft_log": str(tmp_path / "log"), **given}
    with pytest.raises(ValueError, match=reason):
        ddtree(**values)


def test_the_largest_numbers_are_accepted() -> None:
    assert resolve(random_seed=2**63 - 1).random_seed == 2**63 - 1
    assert ddtree({"SGLANG_DDTREE_MAX_TOPK": "2048"}).topk == 2048


def test_a_seed_is_drawn_when_none_is_given() -> None:
    assert len({resolve().random_seed for _ in range(8)}) > 1
    assert resolve(random_seed=0).random_seed == 0


def test_every_flag_has_help_and_a_unique_name() -> None:
    names = [name for flag in FLAGS for name in flag.names]

    assert len(names) == len(set(names))
    assert all(flag.help.endswith(".") for flag in FLAGS)


def test_reading_flags_does_not_import_torch() -> None:
    code = "import sys, autotune.ddtree.flags; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"

    subprocess.run([sys.executable, "-c", code], check=True)
