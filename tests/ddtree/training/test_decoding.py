from __future__ import annotations

import torch

from autotune.ddtree.model import ModelConfig, Target, rotary_tables
from autotune.ddtree.tokenizer import END
from autotune.ddtree.training.decoding import cut_at_end, greedy_answers

CONFIG = ModelConfig(vocabulary=50, width=32, layers=2, heads=2, hidden=48, tapped_layers=(0, 1), max_positions=128)


def make_target() -> Target:
    torch.manual_seed(3)
    target = Target(CONFIG)
    torch.nn.init.normal_(target.embedding.weight, std=0.5)
    return target.eval()


def test_padded_batches_with_a_cache_answer_like_one_prompt_without_either():
    target = make_target()
    rotary = rotary_tables(CONFIG, "cpu", torch.float32)
    prompts = [[5, 6, 7], [9, 8, 7, 6, 5, 4, 30, 31], [40]]

    for prompt, answer in zip(prompts, greedy_answers(target, prompts, 12), strict=True):
        sequence = list(prompt)
        for _ in answer:
            cut = (rotary[0][: len(sequence)], rotary[1][: len(sequence)])
            hidden, _ = target(torch.tensor([sequence]), cut)
            sequence.append(int(target.head(hidden[0, -1]).argmax()))
        assert sequence[len(prompt) :] == answer


def test_an_answer_is_cut_behind_its_first_end_token():
    assert cut_at_end([7, 8, END, 9, END]) == [7, 8, END]
    assert cut_at_end([7, 8]) == [7, 8]
