"""Plain English sentences for prompts, made of our own templates and word lists; seeded, so the same everywhere."""

from __future__ import annotations

import random

PEOPLE = (
    "Imani", "Tomas", "Wren", "Haruto", "Leyla", "Bastian", "Noor", "Freya", "Mateus", "Oksana", "Dario", "Inga", "Kofi",
    "Maren", "Rashid", "Sunniva", "Teodor", "Yara", "Bruno", "Celeste", "Emeka", "Greta", "Hollis", "Jovan",
)  # fmt: skip
PLACES = (
    "the harbour", "the old library", "Lindholm", "the north depot", "Caldera Street", "the community garden", "Orsova",
    "the ferry terminal", "the second floor", "the market hall", "Brackwater", "the workshop", "the river path",
    "the observatory", "Tallow Bridge", "the school kitchen",
)  # fmt: skip
THINGS = (
    "budget", "timetable", "guest list", "heating system", "rain barrel", "bicycle rack", "recipe", "newsletter",
    "water pump", "bookshelf", "training plan", "sound system", "storage room", "delivery", "insurance form", "tool shed",
    "garden fence", "photo archive", "sewing machine", "emergency kit", "door lock", "meeting room", "spare key", "map",
)  # fmt: skip
_TIMES = (
    "on Monday", "before noon", "after the holidays", "by the end of the month", "within two weeks", "every second day",
    "late in the evening", "in early spring", "next Thursday", "during the break", "once a year", "at short notice",
)  # fmt: skip
_VERBS = (
    "check", "repair", "replace", "move", "measure", "order", "clean", "describe", "photograph", "label", "postpone",
    "compare", "borrow", "inspect", "paint", "record",
)  # fmt: skip
_QUALITIES = (
    "cheaper", "lighter", "more reliable", "easier to carry", "safer", "quieter", "harder to find", "quicker to set up",
    "simpler to explain", "better documented", "less wasteful", "more comfortable",
)  # fmt: skip
_TEMPLATES = (
    "{person} wants to {verb} the {thing} at {place} {time}.",
    "The {thing} costs {number} euros, which is {quality} than the one from {place}.",
    "It usually takes {number} minutes to {verb} the {thing}, and {person} has done it {small} times.",
    "If the {thing} is not ready {time}, ask {person} whether {place} is still free.",
    "Most people {verb} the {thing} first and only then think about the {thing2}.",
    "{person} and {person2} disagree about the {thing}: one finds it {quality}, the other would rather {verb} it again.",
    "Keep {number} centimetres of space between the {thing} and the {thing2}.",
    "There are {small} reasons to {verb} the {thing} {time}, and the first one is that {place} closes at {hour}.",
    "Write down who used the {thing}, because last year {number} entries were missing.",
    "A good rule is to {verb} the {thing} {time} and to let {person} look at it afterwards.",
    "From {place} it is about {number} metres to the {thing}, and the way back is {quality}.",
    "Nobody at {place} knew that the {thing} had been lent to {person} for {small} weeks.",
    "The {thing} is {quality} when two people {verb} it together.",
    "{person} saved {number} euros by choosing a {thing} that is {quality}.",
    "Before you {verb} the {thing}, make sure that the {thing2} is switched off.",
    "We counted {number} visitors at {place}, {small} more than {person} had expected.",
    "As soon as the {thing} arrives, {person2} will {verb} it and send a short note to {place}.",
    "The easiest way is to {verb} everything {time}, starting with the {thing}.",
)


def write_sentence(rng: random.Random) -> str:
    """Write one sentence; two of them are hardly ever the same."""
    person, person2 = rng.sample(PEOPLE, 2)
    thing, thing2 = rng.sample(THINGS, 2)
    return rng.choice(_TEMPLATES).format(
        person=person,
        person2=person2,
        thing=thing,
        thing2=thing2,
        place=rng.choice(PLACES),
        time=rng.choice(_TIMES),
        verb=rng.choice(_VERBS),
        quality=rng.choice(_QUALITIES),
        number=rng.randint(11, 990),
        small=rng.randint(2, 9),
        hour=f"{rng.randint(8, 21)}:{rng.choice(('00', '15', '30', '45'))}",
    )


def write_text(rng: random.Random, characters: int) -> str:
    """Write sentences, at most so many characters together; empty when not one fits."""
    text, misses = "", 0
    while misses < 12:
        sentence = write_sentence(rng)
        longer = f"{text} {sentence}" if text else sentence
        if len(longer) <= characters:
            text = longer
        else:
            misses += 1
    return text
