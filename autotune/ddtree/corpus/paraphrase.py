"""How one description is said in many ways: verbs, synonyms and the kind of a parameter said aloud."""

from __future__ import annotations

import random
import re

TRUTH = (
    "returns True if {}",
    "checks whether {}",
    "checks if {}",
    "tells whether {}",
    "decides whether {}",
    "determines if {}",
    "tests whether {}",
    "returns True when {} and False otherwise",
    "returns whether {}",
    "says whether {}",
)
GIVE = (
    "returns",
    "gives",
    "gives back",
    "computes",
    "finds",
    "calculates",
    "produces",
    "determines",
    "works out",
    "outputs",
)
SYNONYMS: dict[str, tuple[str, ...]] = {
    "numbers": ("values", "integers", "entries"),
    "elements": ("items", "entries", "values", "members"),
    "largest": ("biggest", "greatest", "maximum", "highest"),
    "smallest": ("lowest", "minimum", "least"),
    "number of": ("count of", "total number of", "amount of"),
    "how many": ("the number of",),
    "counts": ("finds the number of", "returns the number of", "counts up"),
    "adds up": ("sums", "sums up", "totals", "returns the sum of"),
    "removes": ("deletes", "drops", "strips out", "takes out"),
    "keeps only": ("retains only", "returns only", "selects", "filters out everything except"),
    "converts": ("turns", "changes", "translates"),
    "builds": ("creates", "makes", "constructs"),
    "characters": ("chars", "symbols"),
    "greater": ("larger", "bigger"),
    "longer": ("lengthier",),
    "a list of": ("a new list of", "an array of", "the list of"),
    "sorted": ("ordered",),
    "dictionary": ("dict", "mapping"),
    "matrix": ("2D list", "two-dimensional list"),
    "consecutive": ("successive", "adjacent"),
    "duplicates": ("repeated values", "repeats"),
    "words": ("words",),
    "contains": ("includes", "has"),
    "each": ("every",),
    "all": ("every one of the",),
    "integer": ("whole number", "int"),
    "occurs": ("appears", "is found"),
}
KINDS: dict[str, tuple[str, ...]] = {
    "L": ("the list {}", "a list {}", "the given list {}", "the input list {}", "the array {}", "{}"),
    "S": ("the string {}", "a string {}", "the given string {}", "the text {}", "the input string {}", "{}"),
    "N": ("the integer {}", "the number {}", "a given integer {}", "{}"),
    "F": ("the number {}", "the value {}", "{}"),
    "D": ("the dictionary {}", "a dictionary {}", "the given dictionary {}", "{}"),
    "M": ("the matrix {}", "a matrix {}", "the given matrix {}", "{}"),
}
UNNAMED: dict[str, tuple[str, ...]] = {
    "L": ("the list", "a list", "the given list", "a given list", "the input list", "its argument", "a list of values"),
    "S": ("the string", "a string", "the given string", "a given string", "the text", "its argument"),
    "N": ("the integer", "a number", "the given number", "a given integer"),
    "F": ("the number", "a value", "the given value"),
    "D": ("the dictionary", "a dictionary", "the given dictionary"),
    "M": ("the matrix", "a matrix", "the given matrix", "a grid"),
}
NOUN_BEFORE = re.compile(
    r"\b(list|string|number|integer|text|matrix|dictionary|year|graph|node|matrices|dictionaries|words|word|line|name|lists|strings)$"
)


def _swap_verb(rng: random.Random, text: str) -> str:
    for truth in ("returns True if ", "checks whether "):
        if text.startswith(truth):
            return rng.choice(TRUTH).format(text[len(truth) :])
    if text.startswith(("returns ", "computes ", "finds ")):
        return f"{rng.choice(GIVE)} {text.split(' ', 1)[1]}"
    return text


def _swap_words(rng: random.Random, text: str, share: float) -> str:
    for word, others in SYNONYMS.items():
        if rng.random() < share and re.search(rf"\b{word}\b", text):
            text = re.sub(rf"\b{word}\b", rng.choice(others), text, count=1)
    return text


def _say_parameters(rng: random.Random, text: str, parameters: str) -> str:
    """Say the kind of parameters aloud, or only the kind when a single parameter leaves no doubt."""
    for slot, kind in zip(("$a", "$b", "$c", "$d"), parameters, strict=False):
        before, found, after = text.partition(slot)
        if not found or slot in after or after.startswith(("-th", ")", ",")) or before.endswith("("):
            continue
        if NOUN_BEFORE.search(before.rstrip()):
            continue
        chance = rng.random()
        if len(parameters) == 1 and chance < 0.22:
            text = before + rng.choice(UNNAMED[kind]) + after
        elif chance < 0.45:
            text = before + rng.choice(KINDS[kind]).format(slot) + after
    return text


def paraphrase(rng: random.Random, description: str, parameters: str) -> str:
    """Say an unfilled description in other words.

    Args:
        rng: source of every choice.
        description: third person, with placeholders.
        parameters: kinds of the placeholders.

    Returns:
        A description with the same meaning; the same one about one time in five.
    """
    if rng.random() < 0.2:
        return description
    text = description
    if rng.random() < 0.6:
        text = _swap_verb(rng, text)
    text = _swap_words(rng, text, 0.3)
    return _say_parameters(rng, text, parameters)
