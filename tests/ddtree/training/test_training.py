from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from autotune.ddtree.train import train
from autotune.ddtree.training.answers import Answered
from autotune.ddtree.training.data import prepare
from autotune.ddtree.training.drafter import make_batches
from autotune.ddtree.training.recipe import smoke_recipe
from autotune.ddtree.weights import RECORD_FILE, load_drafter, load_target, load_tokenizer

SMOKE = dataclasses.replace(smoke_recipe(), chats_per_part=60, steps=24, drafter_steps=16, evaluation_questions=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("weights")
    return directory, train(SMOKE, directory, "cpu")


def test_the_loss_of_the_target_falls(trained):
    losses = trained[1]["target_losses"]

    assert losses[-1] < losses[0] - 0.5


def test_the_loss_of_the_drafter_falls(trained):
    losses = trained[1]["drafters"]["1"]["losses"]

    assert losses[-1] < losses[0] - 0.1


def test_what_was_trained_can_be_loaded(trained):
    directory, record = trained

    assert load_target(directory).config == load_drafter(directory).config == SMOKE.model
    assert load_tokenizer(directory).get_vocab_size() == SMOKE.model.vocabulary
    assert json.loads((directory / RECORD_FILE).read_text()) == record


def test_training_twice_gives_the_same_corpus_and_the_same_losses(trained, tmp_path):
    again = train(SMOKE, tmp_path, "cpu")

    assert trained[1]["corpus_sha256"] == again["corpus_sha256"]
    assert trained[1]["target_losses"] == pytest.approx(again["target_losses"], abs=0.01)
    assert trained[1]["drafters"]["1"]["losses"] == pytest.approx(again["drafters"]["1"]["losses"], abs=0.05)


def test_training_sequences_begin_where_chats_begin():
    data = prepare(SMOKE)
    user = data.tokenizer.token_to_id("<|user|>")

    assert np.all(data.tokens[data.starts] == user)
    assert data.starts.max() + SMOKE.sequence < len(data.tokens)


def test_anchors_lie_in_answers_and_leave_a_token_to_predict():
    items = [Answered((1, 9, 2), (5, 6, 7, 3)), Answered((1, 2), (8, 9, 3))]

    (batch,) = make_batches(items, 100, "cpu")

    assert batch.lengths.tolist() == [5, 7]
    assert batch.answer.tolist() == [[0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0]]
