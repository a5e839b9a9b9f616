"""Every number that decides how the weights are trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.ddtree.model import ModelConfig


@dataclass(frozen=True, slots=True)
class Recipe:
    """One training from nothing to weights; all lengths are tokens, all durations are steps.

    Attributes:
        seed: of corpus, initial weights, batches and prompts.
        model: sizes.
        parts: parts of the corpus.
        chats_per_part: chats of each.
        tokenizer_parts: parts that the tokenizer learns from.
        sequence: length of a training sequence of the target.
        batch: sequences in a step of the target.
        steps: of the target.
        learning_rate: of the target at its peak.
        generation_batches: batches of answers that the target gives for the drafter to learn.
        generation_batch: prompts in each.
        answer: longest answer.
        prompt: longest prompt.
        drafter_steps: of each drafter.
        drafter_tokens: tokens of answers and prompts in a step of the drafter, padding included.
        anchors: positions drafted from in each answer and step.
        drafter_learning_rate: of the drafter at its peak.
        drafter_layers: one drafter is trained for each entry.
        evaluation_prompts: prompts that accept lengths are measured on.
        evaluation_questions: questions that each pass rate is measured on.
    """

    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    parts: int = 48
    chats_per_part: int = 4000
    tokenizer_parts: int = 4
    sequence: int = 2048
    batch: int = 32
    steps: int = 2400
    learning_rate: float = 3e-3
    generation_batches: int = 14
    generation_batch: int = 640
    answer: int = 480
    prompt: int = 1400
    drafter_steps: int = 4500
    drafter_tokens: int = 32768
    anchors: int = 24
    drafter_learning_rate: float = 2e-3
    drafter_layers: tuple[int, ...] = (2,)
    evaluation_prompts: int = 96
    evaluation_questions: int = 300


def large_recipe() -> Recipe:
    """A target of about 130 million parameters: for recording tables on a GPU, not for shipping; about eight minutes."""
    return Recipe(
        model=ModelConfig(width=1024, layers=10, heads=16, hidden=2816, tapped_layers=(1, 5, 9)),
        parts=24,
        steps=1300,
        learning_rate=1e-3,
        generation_batches=10,
        generation_batch=384,
        drafter_steps=1500,
        drafter_learning_rate=6e-4,
        evaluation_prompts=48,
        evaluation_questions=40,
    )


def smoke_recipe() -> Recipe:
    """A recipe of seconds on a CPU: every step of the real one, a model that learns nothing useful."""
    return Recipe(
        model=ModelConfig(
            vocabulary=512, width=64, layers=3, heads=2, hidden=128, tapped_layers=(0, 1, 2), max_positions=1024
        ),
        parts=2,
        chats_per_part=200,
        tokenizer_parts=1,
        sequence=192,
        batch=4,
        steps=30,
        generation_batches=1,
        generation_batch=8,
        answer=48,
        prompt=160,
        drafter_steps=20,
        drafter_tokens=1024,
        anchors=6,
        drafter_layers=(1,),
        evaluation_prompts=4,
        evaluation_questions=4,
    )
