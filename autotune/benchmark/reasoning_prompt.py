"""Prompts of the kind *reasoning*: word problems to be solved step by step, after solved ones."""

from __future__ import annotations

import random
from collections.abc import Callable

from autotune.benchmark.prompt_kind import Messages
from autotune.benchmark.sentences import PEOPLE, PLACES, THINGS, write_text

_REQUEST = "Solve each of these problems step by step. Show every intermediate result and check it before you go on."
_PROBLEMS_ASKED = 4


def build_reasoning(rng: random.Random, characters: int, answer_characters: int, lead: int) -> Messages:
    """Write a chat of this kind; see :class:`autotune.benchmark.prompt_kind.Builder`."""
    opening = f"Sheet {lead + 1}. "
    problems: list[str] = []
    length = len(opening) + len(_REQUEST)
    answer = 0
    while not problems or (len(problems) < _PROBLEMS_ASKED and answer <= answer_characters):
        problem, solution = write_problem(rng)
        line = f"\n{len(problems) + 1}. {problem}"
        if problems and length + len(line) > characters:
            break
        problems.append(line)
        length += len(line)
        answer += len(solution)
    turns: Messages = []
    left = characters - length
    while True:
        problem, solution = write_problem(rng)
        if len(problem) + len(solution) > left:
            break
        turns += [("user", problem), ("assistant", solution)]
        left -= len(problem) + len(solution)
    background = write_text(rng, left - 1)
    request = _REQUEST + "".join(problems)
    chat = [*turns, ("user", f"{background} {request}" if background else request)]
    return [("user", opening + chat[0][1]), *chat[1:]]


def write_problem(rng: random.Random) -> tuple[str, str]:
    """Write one problem and its solution in steps."""
    return rng.choice(_PROBLEMS)(rng)


def _shopping(rng: random.Random) -> tuple[str, str]:
    count, price, paid = rng.randint(3, 40), rng.randint(2, 60), rng.randint(1, 9)
    thing, person = rng.choice(THINGS), rng.choice(PEOPLE)
    total = count * price
    note = (total // 50 + paid) * 50
    problem = f"{person} buys {count} parts for the {thing} at {price} euros each and pays with {note} euros. How much is given back?"
    solution = (
        f"The parts cost {count} x {price} = {total} euros. {person} pays {note} euros, so {note} - {total} = {note - total} "
        f"euros are given back. Check: {total} + {note - total} = {note}. The answer is {note - total} euros."
    )
    return problem, solution


def _meeting(rng: random.Random) -> tuple[str, str]:
    one, two, hours = rng.randint(3, 30), rng.randint(3, 30), rng.randint(2, 9)
    person, other = rng.sample(PEOPLE, 2)
    distance = (one + two) * hours
    problem = (
        f"{person} and {other} start {distance} kilometres apart and move towards each other at {one} and {two} kilometres "
        f"an hour. When do they meet, and how far has {person} come?"
    )
    solution = (
        f"Together they cover {one} + {two} = {one + two} kilometres an hour. {distance} / {one + two} = {hours}, so they meet "
        f"after {hours} hours. {person} has come {one} x {hours} = {one * hours} kilometres, {other} {two} x {hours} = "
        f"{two * hours}. Check: {one * hours} + {two * hours} = {distance}."
    )
    return problem, solution


def _ages(rng: random.Random) -> tuple[str, str]:
    younger, gap, later = rng.randint(5, 40), rng.randint(2, 30), rng.randint(2, 15)
    person, other = rng.sample(PEOPLE, 2)
    together = 2 * younger + gap + 2 * later
    problem = (
        f"{other} is {gap} years older than {person}. In {later} years they will be {together} years old together. "
        f"How old is {person} now?"
    )
    solution = (
        f"Let {person} be n years old; {other} is n + {gap}. In {later} years both together are 2n + {gap} + {2 * later} = "
        f"{together}. So 2n = {together - gap - 2 * later}, and n = {younger}. Check: {younger + later} + "
        f"{younger + gap + later} = {together}. {person} is {younger} years old."
    )
    return problem, solution


def _tank(rng: random.Random) -> tuple[str, str]:
    filling, leak, minutes, start = rng.randint(12, 60), rng.randint(1, 11), rng.randint(4, 50), rng.randint(10, 300)
    place = rng.choice(PLACES)
    end = start + (filling - leak) * minutes
    problem = (
        f"A tank at {place} holds {start} litres. {filling} litres a minute flow in and {leak} flow out. After how many minutes "
        f"does it hold {end} litres?"
    )
    solution = (
        f"The tank gains {filling} - {leak} = {filling - leak} litres a minute. It has to gain {end} - {start} = {end - start} "
        f"litres. {end - start} / {filling - leak} = {minutes}. Check: {start} + {minutes} x {filling - leak} = {end}. "
        f"The answer is {minutes} minutes."
    )
    return problem, solution


def _sequence(rng: random.Random) -> tuple[str, str]:
    values = [rng.randint(2, 90) for _ in range(rng.randint(5, 8))]
    limit, factor = rng.randint(20, 70), rng.randint(2, 9)
    kept = [value for value in values if value > limit]
    scaled = [value * factor for value in kept]
    problem = (
        f"Take the numbers {', '.join(map(str, values))}. Keep those above {limit}, multiply each by {factor} and add them up. "
        f"What is the result?"
    )
    steps = ", ".join(f"{value} x {factor} = {value * factor}" for value in kept) or "nothing is left"
    solution = (
        f"Above {limit} are {', '.join(map(str, kept)) or 'none'}. Then {steps}. The sum is "
        f"{' + '.join(map(str, scaled)) or '0'} = {sum(scaled)}. The answer is {sum(scaled)}."
    )
    return problem, solution


def _order(rng: random.Random) -> tuple[str, str]:
    names = rng.sample(PEOPLE, 4)
    place = rng.choice(PLACES)
    problem = (
        f"Four people wait at {place}. {names[1]} came right after {names[0]}. {names[3]} came last. {names[2]} came after "
        f"{names[1]}. In which order did they come, and who is third?"
    )
    solution = (
        f"{names[3]} is fourth. {names[0]} and {names[1]} came one after the other, and {names[2]} after {names[1]}, so "
        f"{names[2]} cannot be first or second. The order is {', '.join(names)}. {names[2]} is third."
    )
    return problem, solution


_PROBLEMS: tuple[Callable[[random.Random], tuple[str, str]], ...] = (
    _shopping,
    _meeting,
    _ages,
    _tank,
    _sequence,
    _order,
)
