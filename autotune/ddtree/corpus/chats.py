"""Chats about families: one function, a module of several, or several turns, in the model's chat format.

A text is a function of its seed alone, so the whole corpus is known by one SHA-256.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ddtree.corpus.catalogue import trained_families
from autotune.ddtree.corpus.family import Family, Task, instantiate, results
from autotune.ddtree.corpus.paraphrase import imperative, paraphrase, say_given

USER, BOT, END = "<|user|>", "<|bot|>", "<|end|>"

CHATS_PER_PART = 4000

REQUESTS = (
    "Write a Python function `$s` that $D.",
    "Write a function `$s` that $D.",
    "Please implement `$s`, a function that $D.",
    "Create `$s` in Python. The function $D.",
    "I need a Python function `$s`. It $D.",
    "Can you write `$s`, which $D?",
    "Implement the function `$s` that $D.",
    "Write `$s` so that it $D.",
    "Show me a Python function `$s` that $D.",
    "Write a Python function named `$f` that $D. Its signature is `$s`.",
    "In Python, write `$s`: it $D.",
    "`$s` should be a function which $D. Please write it.",
    "Complete this function, which $D:\n```python\ndef $s:\n```",
    'Complete the function.\n```python\ndef $s:\n    """$U."""\n```',
    'Fill in the body:\n\ndef $s:\n    """$U."""',
    "Give me the code of a function `$f` with the parameters $p that $D.",
    "How do I write a function `$s` that $D?",
    "Task: $D.\nName the function `$f` and give it the parameters $p.",
    "Implement `def $s`. It $D. Answer with one code block.",
    "Given $G, $I. Call the function `$f`.",
    "Given $G, write a function `$f` that $D.",
    "$C. Write this as a Python function `$s`.",
    "Write a Python function `$f` that takes $G and $D.",
    "Write a function `$s` to $I.",
    'Complete the function.\n```python\ndef $s:\n    """$C."""\n```',
    'def $s:\n    """$C."""\n\nFinish this function.',
    "Implement `$s`.\n\n$C.",
    "I have $G. Write `$f` to $I.",
    "Solve this in Python: $I. The function must be called `$f` and take $p.",
    "The function `$s` must $I.",
)
UNSEEN_REQUESTS = (
    "Define a Python function `$s` which $D.",
    "Please write the code of `$s`, a function that $D.",
    "Help me create a function `$s` that $D.",
    "My program lacks `$s`, something that $D. Could you supply it in Python?",
    "Could you code up `$s`? It has to $I.",
    "Here is what I want: $I. The signature is `$s`.",
)
"""Used for evaluation only."""

INTRODUCTIONS = ("Here is `$f`:", "Here is the function:", "Sure, here is `$f`:", "This function $D:")
DOCSTRING_WISHES = (" Include a docstring.", " Add a docstring.", " Please document it with a docstring.")
EXAMPLE_WISHES = (" Add a usage example.", " Show how to call it.", " Also show one call.")
MODULE_REQUESTS = (
    "Write a Python module with these functions:",
    "Implement the following functions in Python:",
    "Please write a Python file with these functions:",
    "I need one module that contains:",
)
MODULE_INTRODUCTIONS = ("Here is the module:", "Here are the functions:", "Sure, here is the file:")
OPENERS = ("Hi! ", "Hello, ", "Question: ", "Please help me. ", "You are a careful programmer.\n\n", "Exercise. ")
BACKGROUNDS = (
    "This is for a small tool of mine.",
    "I am learning Python.",
    "We need it in a report.",
    "It is part of an exercise.",
    "Speed does not matter much.",
    "The input is always valid.",
    "It must work for empty input too.",
    "My colleague will call it from a script.",
    "It belongs to a text game.",
    "I want to import a table with it.",
    "Our shop uses it every day.",
)
CLOSERS = (
    " Only the code, please.",
    " Answer with one code block.",
    " Use plain Python without imports.",
    " Keep it short.",
    "\nReturn the result, do not print it.",
    " Thank you!",
)
FOLLOW_UPS = ("", "", "", "Thanks! ", "Good. Next: ", "Now something else. ", "That works. ", "Great, one more. ")


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its answer.

    Attributes:
        request: what the user writes.
        answer: a sentence and one fenced block of code.
        tasks: the functions asked for, in order.
    """

    request: str
    answer: str
    tasks: tuple[Task, ...]

    @property
    def text(self) -> str:
        """The turn in the chat format."""
        return f"{prompt(self.request)}{self.answer}{END}"


def prompt(request: str) -> str:
    """The text after which the model answers ``request``."""
    return f"{USER}{request}{BOT}"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _say(rng: random.Random, template: str, task: Task) -> str:
    order = imperative(task.description)
    text = template.replace("$s", task.signature).replace("$f", task.name)
    text = text.replace("$p", " and ".join(f"`{name}`" for name in task.parameters))
    if "$G" in text:
        text = text.replace("$G", say_given(rng, task.parameters, task.family.parameters))
    text = text.replace("$D", task.description).replace("$U", _capital(task.description))
    return text.replace("$I", order).replace("$C", _capital(order))


def _draw_task(rng: random.Random, family: Family) -> Task:
    wording = paraphrase(rng, rng.choice(family.descriptions), family.parameters)
    return instantiate(rng, family, description=wording)


def function_turn(rng: random.Random, family: Family, requests: Sequence[str] = REQUESTS) -> Turn:
    """Ask for one function, now and then with a docstring, a usage example or examples of results."""
    task = _draw_task(rng, family)
    template = rng.choice(requests)
    request = _say(rng, template, task)
    said = imperative(task.description) if "$I" in template or "$C" in template else task.description
    kind = rng.random()
    docstring = kind < 0.2 or '"""' in request
    usage = 0.2 <= kind < 0.32
    if kind < 0.2:
        request += rng.choice(DOCSTRING_WISHES)
    elif usage:
        request += rng.choice(EXAMPLE_WISHES)
    elif kind < 0.5:
        index = rng.randrange(len(family.examples))
        call = f"{task.name}({', '.join(map(repr, family.examples[index]))})"
        value = repr(results(family)[index])
        form = rng.choice(
            (" For example, `{}` returns `{}`.", " Example: {} -> {}", " `{}` gives `{}`.", "\n>>> {}\n{}")
        )
        request += form.format(call, value)
    elif kind < 0.62:
        request += rng.choice(CLOSERS)
    extra = rng.random()
    if extra < 0.06:
        request = rng.choice(OPENERS) + request
    elif extra < 0.12:
        request = f"{rng.choice(BACKGROUNDS)} {request}"
    elif extra < 0.16:
        request = f"{request} {rng.choice(BACKGROUNDS)}"
    answer = (
        f"{_say(rng, rng.choice(INTRODUCTIONS), task)}\n```python\n{task.code(_capital(said) if docstring else None)}\n"
    )
    if usage:
        answer += f"\n\nprint({task.name}({', '.join(map(repr, rng.choice(family.examples)))}))\n"
    return Turn(request, answer + "```", (task,))


def module_turn(rng: random.Random, families: Sequence[Family], size: int) -> Turn:
    """Ask for ``size`` functions of different families in one file."""
    tasks: list[Task] = []
    for family in rng.sample(families, size):
        task = _draw_task(rng, family)
        while any(task.name == other.name for other in tasks):
            task = _draw_task(rng, family)
        tasks.append(task)
    docstring = rng.random() < 0.4
    lines = [f"{index}. `{task.signature}` - {task.description}" for index, task in enumerate(tasks, 1)]
    request = "\n".join([rng.choice(MODULE_REQUESTS), *lines])
    if docstring:
        request += "\nInclude docstrings."
    code = "\n\n\n".join(task.code(_capital(task.description) if docstring else None) for task in tasks)
    return Turn(request, f"{rng.choice(MODULE_INTRODUCTIONS)}\n```python\n{code}\n```", tuple(tasks))


def conversation(rng: random.Random, families: Sequence[Family], longest_characters: int) -> tuple[Turn, ...]:
    """Several turns, together at most about ``longest_characters`` long; at least one turn."""
    turns: list[Turn] = []
    length = 0
    while True:
        if rng.random() < 0.6:
            turn = function_turn(rng, rng.choice(families))
        else:
            turn = module_turn(rng, families, rng.randint(2, 5))
        if turns:
            turn = Turn(rng.choice(FOLLOW_UPS) + turn.request, turn.answer, turn.tasks)
        if turns and length + len(turn.text) > longest_characters:
            return tuple(turns)
        turns.append(turn)
        length += len(turn.text)


def draw_chat(rng: random.Random, families: Sequence[Family]) -> tuple[Turn, ...]:
    """One chat of the training mix: 45 % one function, 30 % a module, 25 % a conversation."""
    kind = rng.random()
    if kind < 0.45:
        return (function_turn(rng, rng.choice(families)),)
    if kind < 0.75:
        return (module_turn(rng, families, rng.randint(3, 8)),)
    return conversation(rng, families, rng.randint(600, 5200))


def render_chat(turns: Sequence[Turn]) -> str:
    """The text of a chat, special tokens included."""
    return "".join(turn.text for turn in turns)


def corpus_part(seed: int, part: int, chats: int = CHATS_PER_PART) -> list[str]:
    """Chats number ``part * chats`` and following of the corpus with this seed."""
    rng = random.Random(f"{seed}/{part}")  # noqa: S311 - reproducible text, no secret
    families = trained_families()
    return [render_chat(draw_chat(rng, families)) for _ in range(chats)]


def corpus_sha256(parts: Sequence[Sequence[str]]) -> str:
    """Hash of a corpus: of the hashes of its parts, in order."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256("\0".join(part).encode()).digest())
    return whole.hexdigest()
