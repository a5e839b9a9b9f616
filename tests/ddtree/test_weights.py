from __future__ import annotations

import json

import pytest
import torch

from autotune.ddtree.corpus.catalogue import held_out_families
from autotune.ddtree.corpus.chats import prompt
from autotune.ddtree.model import Drafter, ModelConfig, Target, count_parameters
from autotune.ddtree.training.decoding import cut_at_end, greedy_answers
from autotune.ddtree.weights import (
    DRAFTER_FILE,
    TARGET_FILE,
    default_weights_directory,
    load_drafter,
    load_target,
    load_tokenizer,
    save_drafter,
    save_target,
)
from autotune.errors import UserError

CONFIG = ModelConfig(vocabulary=40, width=16, layers=2, heads=2, hidden=24, tapped_layers=(0, 1), drafter_layers=2)
SHIPPED = default_weights_directory()


def test_weights_come_back_as_float32_rounded_to_bfloat16(tmp_path):
    target, drafter = Target(CONFIG), Drafter(CONFIG)
    save_target(tmp_path, target)
    save_drafter(tmp_path, drafter)

    for saved, loaded in ((target, load_target(tmp_path)), (drafter, load_drafter(tmp_path))):
        assert loaded.config == CONFIG
        assert not loaded.training
        for name, tensor in loaded.state_dict().items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, saved.state_dict()[name].bfloat16().float()), name


def test_a_missing_file_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path / TARGET_FILE)):
        load_target(tmp_path)
    with pytest.raises(UserError, match="no tokenizer"):
        load_tokenizer(tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / DRAFTER_FILE).write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00not a header....")

    with pytest.raises(UserError, match="cannot be read"):
        load_drafter(tmp_path)


def test_weights_of_another_model_do_not_load(tmp_path):
    save_target(tmp_path, Target(CONFIG))
    (tmp_path / TARGET_FILE).rename(tmp_path / DRAFTER_FILE)

    with pytest.raises(UserError, match="do not fit"):
        load_drafter(tmp_path)


def test_shipped_files_are_small_enough_to_ship():
    sizes = {path.name: path.stat().st_size for path in SHIPPED.iterdir()}

    assert max(sizes.values()) <= 15_000_000
    assert sum(sizes.values()) <= 20_000_000


def test_the_shipped_record_belongs_to_the_shipped_weights():
    record = json.loads((SHIPPED / "training.json").read_text())
    target, drafter = load_target(SHIPPED), load_drafter(SHIPPED)

    assert record["target_parameters"] == count_parameters(target)
    trained = record["drafters"][str(drafter.config.drafter_layers)]
    assert trained["parameters"] == count_parameters(drafter)
    assert sorted(record["held_out"]) == sorted(family.name for family in held_out_families())


def test_the_model_card_names_corpus_and_held_out_families():
    record = json.loads((SHIPPED / "training.json").read_text())
    card = (SHIPPED / "MODEL_CARD.md").read_text()

    assert record["corpus_sha256"] in card
    for family in held_out_families():
        assert f"`{family.name}`" in card


def test_the_shipped_model_writes_a_function_that_works():
    tokenizer = load_tokenizer(SHIPPED)
    request = "Write a Python function `largest_common(a1, b1)` that returns the greatest common divisor of a1 and b1."

    answer = tokenizer.decode(
        cut_at_end(greedy_answers(load_target(SHIPPED), [tokenizer.encode(prompt(request)).ids], 120)[0])
    )
    scope: dict[str, object] = {}
    exec(answer.split("```python\n")[1].split("```")[0], scope)  # noqa: S102 - what the shipped weights write
    function = scope["largest_common"]
    assert callable(function)
    assert function(84, 36) == 12
