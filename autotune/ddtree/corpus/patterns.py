"""Families made from a condition, an expression or a unit times what is done with it.

Combinations teach the model to compose; some combinations are held out although both of their parts are trained.
The module is long because it is data.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ddtree.corpus.family import Family, family

CHARACTERS = (
    ("vowels", "vowels", "$c.lower() in 'aeiou'"),
    ("consonants", "consonants", "$c.isalpha() and $c.lower() not in 'aeiou'"),
    ("digits", "digits", "$c.isdigit()"),
    ("uppercase", "uppercase letters", "$c.isupper()"),
    ("lowercase", "lowercase letters", "$c.islower()"),
    ("spaces", "whitespace characters", "$c.isspace()"),
    ("letters", "letters", "$c.isalpha()"),
    ("punctuation", "punctuation marks", "$c in '.,;:!?'"),
)
NUMBERS = (
    ("even", "even numbers", "that are even", "$v % 2 == 0"),
    ("odd", "odd numbers", "that are odd", "$v % 2 == 1"),
    ("positive", "positive numbers", "above zero", "$v > 0"),
    ("negative", "negative numbers", "below zero", "$v < 0"),
    ("multiples_of_three", "multiples of 3", "divisible by 3", "$v % 3 == 0"),
    ("multiples_of_five", "multiples of 5", "divisible by 5", "$v % 5 == 0"),
    ("nonzero", "nonzero numbers", "other than zero", "$v != 0"),
    ("above_ten", "numbers greater than 10", "over 10", "$v > 10"),
)
EXPRESSIONS = (
    ("squares", "squares", "$v ** 2"),
    ("cubes", "cubes", "$v ** 3"),
    ("doubled", "doubled values", "$v * 2"),
    ("tripled", "tripled values", "$v * 3"),
    ("negated", "negated values", "-$v"),
    ("halves", "halved values", "$v / 2"),
    ("absolute", "absolute values", "abs($v)"),
)
UNITS = (
    ("celsius_to_fahrenheit", "degrees Celsius", "degrees Fahrenheit", "$a * 9 / 5 + 32"),
    ("fahrenheit_to_celsius", "degrees Fahrenheit", "degrees Celsius", "($a - 32) * 5 / 9"),
    ("km_to_miles", "kilometers", "miles", "$a * 0.621371"),
    ("miles_to_km", "miles", "kilometers", "$a / 0.621371"),
    ("kg_to_pounds", "kilograms", "pounds", "$a * 2.20462"),
    ("pounds_to_kg", "pounds", "kilograms", "$a / 2.20462"),
    ("cm_to_inches", "centimeters", "inches", "$a / 2.54"),
    ("inches_to_cm", "inches", "centimeters", "$a * 2.54"),
    ("hours_to_seconds", "hours", "seconds", "$a * 3600"),
    ("days_to_minutes", "days", "minutes", "$a * 1440"),
    ("weeks_to_days", "weeks", "days", "$a * 7"),
    ("celsius_to_kelvin", "degrees Celsius", "kelvins", "$a + 273.15"),
    ("minutes_to_hours", "minutes", "hours", "$a / 60"),
    ("meters_to_feet", "meters", "feet", "$a * 3.28084"),
    ("bytes_to_kb", "bytes", "kilobytes", "$a / 1024"),
)
SHAPES = (
    ("circle", "circle with radius $a", "F", "3.14159 * $a ** 2", "2 * 3.14159 * $a"),
    ("square", "square with side $a", "F", "$a * $a", "4 * $a"),
    ("rectangle", "rectangle with sides $a and $b", "FF", "$a * $b", "2 * ($a + $b)"),
    ("rhombus", "rhombus with diagonals $a and $b", "FF", "$a * $b / 2", "2 * ($a ** 2 + $b ** 2) ** 0.5"),
)
SOLIDS = (
    ("cube", "cube with side $a", "F", "$a ** 3"),
    ("sphere", "sphere with radius $a", "F", "4 / 3 * 3.14159 * $a ** 3"),
    ("cylinder", "cylinder with radius $a and height $b", "FF", "3.14159 * $a ** 2 * $b"),
    ("cone", "cone with radius $a and height $b", "FF", "3.14159 * $a ** 2 * $b / 3"),
    ("box", "box with sides $a, $b and $c", "FFF", "$a * $b * $c"),
)
FIGURATE = (
    ("triangular", "triangular number", "$a * ($a + 1) // 2"),
    ("square_number", "square number", "$a * $a"),
    ("pentagonal", "pentagonal number", "$a * (3 * $a - 1) // 2"),
    ("hexagonal", "hexagonal number", "$a * (2 * $a - 1)"),
    ("cube_number", "cube number", "$a ** 3"),
    ("mersenne", "Mersenne number", "2 ** $a - 1"),
)
RECURRENCES = (
    ("lucas", "Lucas number", "p, q = 2, 1", "p, q = q, p + q"),
    ("pell", "Pell number", "p, q = 0, 1", "p, q = q, 2 * q + p"),
    ("tribonacci", "Tribonacci number", "p, q, w = 0, 0, 1", "p, q, w = q, w, p + q + w"),
    ("jacobsthal", "Jacobsthal number", "p, q = 0, 1", "p, q = q, q + 2 * p"),
)
WORDS = (
    ("long_words", "words longer than 4 characters", "len(w) > 4"),
    ("short_words", "words shorter than 4 characters", "len(w) < 4"),
    ("capitalized_words", "capitalized words", "w[0].isupper()"),
    ("vowel_words", "words that start with a vowel", "w[0].lower() in 'aeiou'"),
    ("numeric_words", "words made of digits", "w.isdigit()"),
)
HELD_OUT = frozenset(
    {
        "count_consonants",
        "remove_uppercase",
        "keep_punctuation",
        "has_lowercase",
        "sum_multiples_of_five",
        "count_negative",
        "filter_above_ten",
        "product_odd",
        "max_even",
        "squares_of_positive",
        "sum_cubes",
        "tripled",
        "box_volume",
        "pentagonal",
        "divisible_by_7",
        "lucas",
        "weeks_to_days",
        "count_long_words",
        "any_negative",
    }
)
"""Combinations that training never sees."""


def _characters() -> Iterator[Family]:
    examples = [("Hello, World 42!",), ("",), ("a B.c",)]
    for key, noun, condition in CHARACTERS:
        yield family(
            f"count_{key} num_{key}",
            "S",
            [
                f"returns the number of {noun} in $a",
                f"counts the {noun} in $a",
                f"returns how many {noun} $a contains",
                f"tells how many {noun} are in $a",
                f"goes through $a and counts {noun}",
                f"finds how often {noun} occur in $a",
            ],
            [
                f"return sum(1 for $c in $a if {condition})",
                f"count = 0\nfor $c in $a:\n    if {condition}:\n        count += 1\nreturn count",
            ],
            examples,
        )
        yield family(
            f"keep_{key} only_{key}",
            "S",
            [
                f"returns only the {noun} of $a",
                f"keeps only the {noun} in $a",
                f"extracts the {noun} from $a",
                f"gives a string of just the {noun} found in $a",
                f"filters $a so that only {noun} stay",
                f"drops everything but the {noun} from $a",
            ],
            [f"return ''.join($c for $c in $a if {condition})"],
            examples,
        )
        yield family(
            f"remove_{key} drop_{key}",
            "S",
            [
                f"returns $a without its {noun}",
                f"removes all {noun} from $a",
                f"deletes the {noun} of $a",
                f"strips the {noun} out of $a",
                f"gives $a with the {noun} taken out",
                f"filters {noun} from $a",
            ],
            [f"return ''.join($c for $c in $a if not ({condition}))"],
            examples,
        )
        yield family(
            f"has_{key} contains_{key}",
            "S",
            [
                f"returns True if $a contains any {noun}",
                f"checks whether $a has at least one of the {noun}",
                f"tells whether there are {noun} in $a",
                f"says if one or more {noun} occur in $a",
                f"tests $a for {noun}",
            ],
            [f"return any({condition} for $c in $a)"],
            examples,
        )


def _words() -> Iterator[Family]:
    examples = [("The quick 12 Brown foxes eat",), ("a bc",), ("",)]
    for key, noun, condition in WORDS:
        yield family(
            f"count_{key} num_{key}",
            "S",
            [f"returns the number of {noun} in $a", f"counts the {noun} in $a"],
            [f"return sum(1 for w in $a.split() if {condition})"],
            examples,
        )
        yield family(
            f"list_{key} get_{key}",
            "S",
            [f"returns a list of the {noun} in $a", f"lists the {noun} of $a"],
            [f"return [w for w in $a.split() if {condition}]"],
            examples,
        )


def _numbers() -> Iterator[Family]:
    examples = [([1, 2, -3, 4, 0, 6, 9, 15, 20],), ([],), ([-5, 10],)]
    for key, noun, clause, condition in NUMBERS:
        yield family(
            f"sum_{key} total_{key}",
            "L",
            [
                f"returns the sum of the {noun} in $a",
                f"adds up the {noun} in $a",
                f"totals only those values of $a {clause}",
                f"goes through $a and sums the numbers {clause}",
                f"computes what the {noun} of $a add up to",
                f"takes $a and gives the total of its entries {clause}",
            ],
            [
                f"return sum($v for $v in $a if {condition})",
                f"$t = 0\nfor $v in $a:\n    if {condition}:\n        $t += $v\nreturn $t",
            ],
            examples,
        )
        yield family(
            f"product_{key} multiply_{key}",
            "L",
            [
                f"returns the product of the {noun} in $a",
                f"multiplies the {noun} in $a",
                f"multiplies together those values of $a {clause}",
                f"goes through $a and multiplies the numbers {clause}",
                f"gives the product over all {noun} of $a, 1 if there are none",
            ],
            [f"$r = 1\nfor $v in $a:\n    if {condition}:\n        $r *= $v\nreturn $r"],
            examples,
        )
        yield family(
            f"filter_{key} keep_{key} get_{key}",
            "L",
            [
                f"returns the {noun} in $a",
                f"keeps only the {noun} of $a",
                f"selects the numbers {clause} from $a",
                f"throws away everything in $a except the {noun}",
                f"gives a list with just the values of $a {clause}",
                f"returns a list of the {noun} in $a",
            ],
            [
                f"return [$v for $v in $a if {condition}]",
                f"$r = []\nfor $v in $a:\n    if {condition}:\n        $r.append($v)\nreturn $r",
            ],
            examples,
        )
        yield family(
            f"count_{key} num_{key}",
            "L",
            [
                f"returns how many {noun} are in $a",
                f"tells how many entries of $a are {noun}",
                f"gives the number of values {clause} in $a",
                f"says how many numbers {clause} are found in $a",
                f"counts the {noun} in $a",
                f"returns the number of {noun} in $a",
            ],
            [f"return sum(1 for $v in $a if {condition})"],
            examples,
        )
        yield family(
            f"all_{key} only_has_{key}",
            "L",
            [
                f"returns True if $a has only {noun}",
                f"checks whether all elements of $a are {noun}",
                f"says if $a holds nothing but {noun}",
                f"tells whether $a consists of numbers {clause} only",
                f"tests that every number in $a is one of the {noun}",
            ],
            [f"return all({condition} for $v in $a)"],
            examples,
        )
        yield family(
            f"any_{key} has_{key}_numbers",
            "L",
            [
                f"returns True if $a has any {noun}",
                f"checks whether some elements of $a are {noun}",
                f"says if at least one number {clause} is in $a",
                f"tells whether $a contains one or more {noun}",
                f"tests whether there are {noun} in $a",
            ],
            [f"return any({condition} for $v in $a)"],
            examples,
        )
        yield family(
            f"first_{key} find_{key}",
            "L",
            [
                f"returns the first of the {noun} in $a, or None",
                f"gives the first number {clause} in $a, None if there is none",
                f"looks for the earliest of the {noun} in $a, otherwise None",
                f"searches $a from the left for a number {clause}; None if nothing fits",
                f"finds the first of the {noun} in $a, None if missing",
            ],
            [f"for $v in $a:\n    if {condition}:\n        return $v\nreturn None"],
            examples,
        )
        yield family(
            f"max_{key} largest_{key}",
            "L",
            [
                f"returns the largest of the {noun} in $a, or None",
                f"tells the biggest number {clause} in $a, None if there is none",
                f"picks the maximum among the {noun} of $a, otherwise None",
                f"finds the largest of the {noun} in $a, None if missing",
            ],
            [f"return max(($v for $v in $a if {condition}), default=None)"],
            examples,
        )
        yield family(
            f"squares_of_{key} square_{key}",
            "L",
            [
                f"returns the squares of the {noun} in $a",
                f"squares the {noun} of $a and drops the others",
                f"squares each number {clause} in $a, skipping the rest",
                f"gives a list of x * x for the {noun} in $a",
            ],
            [f"return [$v ** 2 for $v in $a if {condition}]"],
            examples,
        )


def _expressions() -> Iterator[Family]:
    examples = [([1, 2, -3],), ([],)]
    for key, noun, expression in EXPRESSIONS:
        yield family(
            f"{key} get_{key} list_{key}",
            "L",
            [
                f"returns the {noun} of the numbers in $a",
                f"builds a list with the {noun} of $a",
                f"gives a new list that holds the {noun} of $a",
                f"replaces the numbers of $a by their {noun}",
            ],
            [f"return [{expression} for $v in $a]", f"$r = []\nfor $v in $a:\n    $r.append({expression})\nreturn $r"],
            examples,
        )
        yield family(
            f"sum_{key} sum_of_{key}",
            "L",
            [
                f"returns the sum of the {noun} of $a",
                f"adds up the {noun} of the numbers in $a",
                f"totals the {noun} of the entries of $a",
                f"computes what the {noun} of $a add up to",
            ],
            [f"return sum({expression} for $v in $a)"],
            examples,
        )


def _units() -> Iterator[Family]:
    for key, unit, wanted, expression in UNITS:
        yield family(
            f"{key} convert_{key}",
            "F",
            [
                f"converts $a from {unit} to {wanted}",
                f"returns $a {unit} in {wanted}",
                f"converts $a {unit} to {wanted}",
                f"takes a value $a in {unit} and gives it in {wanted}",
                f"tells how many {wanted} $a {unit} are",
                f"changes {unit} $a into {wanted}",
            ],
            [f"return {expression}"],
            [(10,), (0,)],
        )


def _geometry() -> Iterator[Family]:
    for key, noun, parameters, area, perimeter in SHAPES:
        examples = [(2, 3)[: len(parameters)], (5, 1)[: len(parameters)]]
        for what, expression in (("area", area), ("perimeter", perimeter)):
            yield family(
                f"{key}_{what} {what}_of_{key}",
                parameters,
                [
                    f"returns the {what} of a {noun}",
                    f"computes the {what} of a {noun}",
                    f"tells the {what} of a {noun}",
                    f"works out how large the {what} of a {noun} is",
                ],
                [f"return {expression}"],
                examples,
            )
    for key, noun, parameters, expression in SOLIDS:
        yield family(
            f"{key}_volume volume_of_{key}",
            parameters,
            [
                f"returns the volume of a {noun}",
                f"computes the volume of a {noun}",
                f"tells how much space a {noun} takes",
                f"works out the volume of a {noun}",
            ],
            [f"return {expression}"],
            [(2, 3, 4)[: len(parameters)]],
        )


def _sequences() -> Iterator[Family]:
    for key, noun, expression in FIGURATE:
        wordings = [
            f"returns the $a-th {noun}",
            f"computes the {noun} with index $a",
            f"tells {noun} number $a",
            f"gives the {noun} at position $a",
        ]
        yield family(f"{key} nth_{key}", "N", wordings, [f"return {expression}"], [(1,), (5,)])
    for key, noun, start, step in RECURRENCES:
        wordings = [
            f"returns the $a-th {noun}",
            f"computes the {noun} with index $a",
            f"tells {noun} number $a",
            f"gives the {noun} at position $a",
        ]
        body = f"{start}\nfor _ in range($a):\n    {step}\nreturn p"
        yield family(f"{key} nth_{key}", "N", wordings, [body], [(0,), (3,), (8,)])
    for key, operator, noun, start in (("sum_to", "+", "sum", "0"), ("product_to", "*", "product", "1")):
        wordings = [
            f"returns the {noun} of the integers from 1 to $a",
            f"computes the {noun} of 1 to $a",
            f"takes 1, 2, 3 up to $a and gives their {noun}",
        ]
        body = f"$r = {start}\nfor i in range(1, $a + 1):\n    $r {operator}= i\nreturn $r"
        yield family(f"{key}_n {key}", "N", wordings, [body], [(5,), (1,)])
    for divisor in (3, 4, 5, 6, 7, 9, 11):
        yield family(
            f"divisible_by_{divisor} is_divisible_by_{divisor}",
            "N",
            [
                f"returns True if $a is divisible by {divisor}",
                f"checks whether $a is a multiple of {divisor}",
                f"says if {divisor} divides $a",
                f"tells whether $a can be divided by {divisor} without remainder",
            ],
            [f"return $a % {divisor} == 0"],
            [(divisor,), (divisor + 1,)],
        )


def _selections() -> Iterator[Family]:
    for key, operator, noun in (("maximum", ">", "largest"), ("minimum", "<", "smallest")):
        yield family(
            f"{key} find_{key}",
            "L",
            [
                f"returns the {noun} element of $a without using built-in functions",
                f"finds the {noun} value in $a with a loop",
                f"goes through $a to find its {noun} number",
                f"tells the {noun} entry of $a",
            ],
            [f"best = $a[0]\nfor $v in $a:\n    if $v {operator} best:\n        best = $v\nreturn best"],
            [([3, 1, 2],)],
        )
        yield family(
            f"index_of_{key} arg_{key}",
            "L",
            [
                f"returns the index of the {noun} element of $a",
                f"finds the position of the {noun} value in $a",
                f"tells where in $a the {noun} number is",
                f"locates the {noun} element of $a and gives its index",
            ],
            [
                (
                    f"best = 0\nfor $i in range(1, len($a)):\n"
                    f"    if $a[$i] {operator} $a[best]:\n        best = $i\nreturn best"
                )
            ],
            [([3, 1, 2],)],
        )
    for key, method in (("start", "startswith"), ("end", "endswith")):
        yield family(
            f"{key}s_with words_{key}ing_with",
            "LS",
            [
                f"returns the strings in $a that {key} with $b",
                f"keeps the words of $a that {key} with $b",
                f"selects the entries of $a which {key} with the text $b",
                f"filters $a for strings with $b at the {key}",
            ],
            [f"return [w for w in $a if w.{method}($b)]"],
            [(["ab", "ba", "aa"], "a")],
        )
    for key, operator, noun in (
        ("greater_than above_threshold", ">", "greater"),
        ("less_than below_threshold", "<", "smaller"),
    ):
        yield family(
            key,
            "LN",
            [
                f"returns the numbers in $a {noun} than $b",
                f"keeps the elements of $a that are {noun} than $b",
                f"selects what is {noun} than $b from $a",
                f"filters $a, leaving values {noun} than the limit $b",
            ],
            [f"return [$v for $v in $a if $v {operator} $b]"],
            [([1, 5, 3], 2)],
        )
        yield family(
            f"count_{key.split()[0]} how_many_{noun}",
            "LN",
            [
                f"returns how many numbers in $a are {noun} than $b",
                f"counts the elements of $a {noun} than $b",
                f"tells how many entries of $a are {noun} than $b",
                f"gives the number of values in $a that are {noun} than $b",
            ],
            [f"return sum(1 for $v in $a if $v {operator} $b)"],
            [([1, 5, 3], 2)],
        )
    yield family(
        "longer_than words_longer_than",
        "LN",
        [
            "returns the words in $a that are longer than $b characters",
            "keeps the strings of $a with more than $b characters",
            "selects words from $a whose length is above $b",
        ],
        ["return [w for w in $a if len(w) > $b]"],
        [(["ab", "abc"], 2)],
    )
    yield family(
        "top_k largest_k",
        "LN",
        [
            "returns the $b largest elements of $a in descending order",
            "finds the $b largest values of $a, largest first",
            "gives the top $b numbers of $a, biggest first",
        ],
        ["return sorted($a, reverse=True)[:$b]"],
        [([1, 5, 3], 2)],
    )
    yield family(
        "take_every every_nth",
        "LN",
        ["returns every $b-th element of $a", "keeps every $b-th element of $a, starting with the first"],
        ["return $a[::$b]"],
        [([1, 2, 3, 4, 5], 2)],
    )


def _named(topic: str, made: Iterator[Family]) -> tuple[Family, ...]:
    return tuple(
        Family(f.names, topic, f.parameters, f.descriptions, f.bodies, f.examples, held_out=f.name in HELD_OUT)
        for f in made
    )


FAMILIES: tuple[Family, ...] = (
    *_named("characters of a string", _characters()),
    *_named("words of a string", _words()),
    *_named("numbers of a list that meet a condition", _numbers()),
    *_named("numbers of a list turned into others", _expressions()),
    *_named("unit conversion", _units()),
    *_named("geometry", _geometry()),
    *_named("number sequences", _sequences()),
    *_named("elements of a list chosen by size or affix", _selections()),
)
