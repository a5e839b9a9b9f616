"""What a family of small functions is: names, parameters, wordings, bodies and example arguments of one task.

Placeholders in descriptions and bodies: ``$a`` to ``$d`` are the parameters, ``$f`` the function, and the names of
:data:`~autotune.ddtree.corpus.names.LOCALS` local variables; :func:`instantiate` fills all of them with names drawn at random.
"""

from __future__ import annotations

import copy
import functools
import keyword
import random
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ddtree.corpus.names import (
    FILLER_WORDS,
    GENERIC_NAMES,
    LOCALS,
    NAME_PREFIXES,
    NAME_SUFFIXES,
    NOUNS,
    PARAMETER_NAMES,
    PARAMETER_PREFIXES,
    SLOTS,
)


@dataclass(frozen=True, slots=True)
class Family:
    """One task with its variants.

    Attributes:
        names: function names; the first one identifies the family.
        topic: the group of tasks it belongs to.
        parameters: one letter a parameter, a key of :data:`~autotune.ddtree.corpus.names.PARAMETER_NAMES` each.
        descriptions: what the function does, starting with a verb in the third person.
        bodies: implementations that agree on every example.
        examples: argument tuples on which every body runs.
        held_out: never used for training.
    """

    names: tuple[str, ...]
    topic: str
    parameters: str
    descriptions: tuple[str, ...]
    bodies: tuple[str, ...]
    examples: tuple[tuple[object, ...], ...]
    held_out: bool = False

    @property
    def name(self) -> str:
        """The identifying name."""
        return self.names[0]


def family(
    names: str,
    parameters: str,
    descriptions: Sequence[str],
    bodies: Sequence[str],
    examples: Sequence[tuple[object, ...]],
    *,
    held_out: bool = False,
    topic: str = "",
) -> Family:
    """Make a family from blank-separated names and indented bodies."""
    return Family(
        names=tuple(names.split()),
        topic=topic,
        parameters=parameters,
        descriptions=tuple(descriptions),
        bodies=tuple(textwrap.dedent(body).strip() for body in bodies),
        examples=tuple(examples),
        held_out=held_out,
    )


@dataclass(frozen=True, slots=True)
class Task:
    """A family with every placeholder filled.

    Attributes:
        family: where it comes from.
        name: of the function.
        parameters: names in order.
        description: third person, no full stop.
        body: statements of the function, not indented.
    """

    family: Family
    name: str
    parameters: tuple[str, ...]
    description: str
    body: str

    @property
    def signature(self) -> str:
        """Name and parameters as in a call."""
        return f"{self.name}({', '.join(self.parameters)})"

    def code(self, docstring: str | None = None) -> str:
        """The whole function, with ``docstring`` and a full stop as its first line if given; no line end."""
        body = f'"""{docstring}."""\n{self.body}' if docstring else self.body
        return f"def {self.signature}:\n" + textwrap.indent(body, "    ")


def draw_function_name(rng: random.Random, family: Family, wording: str) -> str:
    """Draw a name: mostly the family's own, decorated now and then, or words of the wording, or a meaningless one."""
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(GENERIC_NAMES)
    if kind > 0.8:
        words = re.findall(r"(?<![$\w'])[a-z]{3,}\b", wording)
        telling = [word for word in words[1:] if word not in FILLER_WORDS and not keyword.iskeyword(word)]
        if telling:
            count = min(len(telling), rng.choice((2, 2, 2, 3)))
            chosen = sorted(rng.sample(range(len(telling)), count))
            joined = "_".join(dict.fromkeys(telling[index] for index in chosen))
            return f"the_{joined}_of" if count == 1 else joined
    name = rng.choice(family.names)
    if kind < 0.24:
        return rng.choice(NAME_PREFIXES) + name
    if kind < 0.34:
        return name + rng.choice(NAME_SUFFIXES)
    return name


def draw_parameter_names(rng: random.Random, family: Family, function_name: str, body: str) -> dict[str, str]:
    """Draw a different name for every parameter slot, none of them a word of the body."""
    names: dict[str, str] = {}
    taken = {function_name, *re.findall(r"\w+", body)}
    for slot, kind in zip(SLOTS, family.parameters, strict=False):
        pool = NOUNS if rng.random() < 0.25 else PARAMETER_NAMES[kind]
        name = rng.choice([name for name in pool if name not in taken and name not in names.values()])
        if rng.random() < 0.08:
            name = rng.choice(PARAMETER_PREFIXES) + name
        names[slot] = name
    return names


def fill(text: str, names: dict[str, str]) -> str:
    """Replace every placeholder of ``text`` that ``names`` knows."""
    for slot, name in names.items():
        text = text.replace(slot, name)
    return text


def instantiate(rng: random.Random, family: Family, *, body: int | None = None, description: str | None = None) -> Task:
    """Fill a family's placeholders at random.

    Args:
        rng: source of every choice.
        family: what to fill.
        body: which implementation; ``None`` draws one.
        description: unfilled wording; ``None`` draws one of the family's.
    """
    wording = rng.choice(family.descriptions) if description is None else description
    template = family.bodies[rng.randrange(len(family.bodies)) if body is None else body]
    name = draw_function_name(rng, family, wording)
    while name in re.findall(r"\w+", template):
        name = draw_function_name(rng, family, wording)
    parameters = draw_parameter_names(rng, family, name, template)
    taken = {name, *parameters.values()}
    names = dict(parameters)
    for slot, pool in LOCALS.items():
        if slot in parameters:
            continue
        free = [local for local in pool if local not in taken and local not in template]
        names[slot] = free[0] if rng.random() < 0.7 else rng.choice(free)
    names["$f"] = name
    return Task(family, name, tuple(parameters.values()), fill(wording, names), fill(template, names))


@functools.cache
def expected_results(family_name: str, body: str, slots: int, examples: str) -> tuple[object, ...]:
    """Run one body on examples given as source; see :func:`results`."""
    names = {slot: f"p{index}" for index, slot in enumerate(SLOTS[:slots])}
    names |= {slot: f"local_{slot[1:]}" for slot in LOCALS if slot not in names}
    names["$f"] = family_name
    head = f"def {family_name}({', '.join(f'p{index}' for index in range(slots))}):\n"
    scope: dict[str, object] = {}
    exec(head + textwrap.indent(fill(body, names), "    "), scope)  # noqa: S102 - our own source, written in this package
    function = scope[family_name]
    if not callable(function):
        raise TypeError(family_name)
    arguments: tuple[tuple[object, ...], ...] = eval(examples)  # noqa: S307 - repr of this package's own literals
    return tuple(function(*copy.deepcopy(argument)) for argument in arguments)


def results(family: Family, body: int = 0) -> tuple[object, ...]:
    """What the chosen body returns on each of the family's examples."""
    return expected_results(family.name, family.bodies[body], len(family.parameters), repr(family.examples))
