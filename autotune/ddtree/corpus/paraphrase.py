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
    "hands back",
    "tells",
    "computes",
    "finds",
    "calculates",
    "produces",
    "determines",
    "works out",
    "outputs",
)
SYNONYMS: dict[str, tuple[str, ...]] = {
    "even numbers": ("even integers", "even elements", "even values", "numbers that are even", "even ones"),
    "odd numbers": ("odd integers", "odd elements", "odd values", "numbers that are odd", "odd ones"),
    "positive numbers": ("numbers above zero", "positive values", "elements greater than zero", "positive ones"),
    "negative numbers": ("numbers below zero", "negative values", "elements less than zero", "negative ones"),
    "multiples of 3": ("numbers divisible by 3", "elements divisible by three", "multiples of three"),
    "multiples of 5": ("numbers divisible by 5", "elements divisible by five", "multiples of five"),
    "nonzero numbers": ("non-zero elements", "numbers different from zero", "values that are not zero"),
    "numbers greater than 10": ("numbers above 10", "elements larger than ten", "values bigger than 10"),
    "squares of": ("squared values of", "second powers of"),
    "cubes of": ("third powers of", "cubed values of"),
    "doubled values of": ("doubles of", "twofold values of"),
    "uppercase letters": ("capital letters", "upper-case letters", "uppercase characters"),
    "lowercase letters": ("small letters", "lower-case letters", "lowercase characters"),
    "whitespace characters": ("whitespace", "blanks"),
    "punctuation marks": ("punctuation characters", "punctuation"),
    "sum of": ("total of",),
    "product of": ("result of multiplying",),
    "average": ("mean",),
    "reversed": ("in reverse order", "backwards"),
    "index of": ("position of",),
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
        if word in text and rng.random() < share:
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


def imperative(description: str) -> str:
    """Turn "returns the sum" into "return the sum"; only the first word changes."""
    verb, space, rest = description.partition(" ")
    if verb.endswith("ies"):
        verb = verb[:-3] + "y"
    elif verb.endswith(("ches", "shes", "sses", "xes")):
        verb = verb[:-2]
    elif verb.endswith("s"):
        verb = verb[:-1]
    return verb + space + rest


def say_given(rng: random.Random, names: tuple[str, ...], parameters: str) -> str:
    """Name parameters with their kinds: "a list `xs` and an integer `k`"."""
    kinds = {
        "L": ("a list", "an array", "a list of values"),
        "S": ("a string", "some text", "a string"),
        "N": ("an integer", "a number", "a whole number"),
        "F": ("a number", "a value"),
        "D": ("a dictionary", "a dict"),
        "M": ("a matrix", "a list of lists", "a grid"),
    }
    quote = rng.choice(("`{}`", "{}"))
    said = [f"{rng.choice(kinds[kind])} {quote.format(name)}" for name, kind in zip(names, parameters, strict=True)]
    return " and ".join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else said[0]


KEPT = frozenset(("not", "no", "without", "never", "except", "but", "or"))


def drop_words(rng: random.Random, text: str, share: float) -> str:
    """Leave words out, so that the model learns to go by the words that matter; the verb and placeholders stay."""
    verb, *rest = text.split(" ")
    kept = [word for word in rest if "$" in word or word in KEPT or not word.isalpha() or rng.random() >= share]
    return " ".join([verb, *kept])


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
    text = _say_parameters(rng, _swap_words(rng, text, 0.35), parameters)
    return drop_words(rng, text, 0.12) if rng.random() < 0.3 else text
