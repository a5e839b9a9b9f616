"""One correct answer to every coding problem; only tests read this file, and nothing here is ever sent to a server."""

# mypy: ignore-errors
# ruff: noqa: SIM905 - answers are written the way a person would

from __future__ import annotations


def vowel_total(phrase):
    return sum(letter in "aeiouAEIOU" for letter in phrase)


def add_even_entries(readings):
    return sum(reading for reading in readings if reading % 2 == 0)


def to_fahrenheit(degrees):
    return degrees * 9 / 5 + 32


def read_backwards(word):
    return word[::-1]


def leap_check(y):
    return y % 400 == 0 or (y % 4 == 0 and y % 100 != 0)


def mean_score(scores):
    return sum(scores) / len(scores)


def only_odd_ones(nums):
    return [n for n in nums if n % 2 == 1]


def longest_of(sentence):
    return max(sentence.split(), key=len)


def slab_area(width, height):
    return width * height


def strip_digits(label):
    return "".join(c for c in label if c not in "0123456789")


def squared_list(nums):
    return [n**2 for n in nums]


def keep_between(value, low, high):
    return max(low, min(value, high))


def distances_from_zero(numbers):
    return [abs(n) for n in numbers]


def mentions_number(text):
    return any(c in "0123456789" for c in text)


def days_in_weeks(w):
    return w * 7


def cube_total(values):
    return sum(v**3 for v in values)


def triple_each(nums):
    return [3 * n for n in nums]


def below_zero(temps):
    return sum(t < 0 for t in temps)


def splits_by_seven(n):
    return n % 7 == 0


def box_capacity(length, width, height):
    return length * width * height


def flip_case(text):
    return text.swapcase()


def without_value(items, unwanted):
    return [item for item in items if item != unwanted]


def numbered_lines(lines):
    return [f"{number}. {line}" for number, line in enumerate(lines, 1)]


def same_ends(values):
    return bool(values) and values[0] == values[-1]


def minutes_of_day(hour, minute):
    return hour * 60 + minute


def outer_letters(name):
    return name[0] + name[-1] if name else ""


def sign_word(n):
    if n > 0:
        return "positive"
    return "negative" if n < 0 else "zero"


def prime_check(number):
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def greatest_shared_divisor(p, q):
    while q:
        p, q = q, p % q
    return p


def drop_repeats(items):
    return list(dict.fromkeys(items))


def tally_words(text):
    tally = {}
    for word in text.split():
        tally[word] = tally.get(word, 0) + 1
    return tally


def is_mirrored(s):
    return s == s[::-1]


def shift_left(items, steps):
    if not items:
        return []
    steps %= len(items)
    return items[steps:] + items[:steps]


def cumulative(amounts):
    totals = []
    for amount in amounts:
        totals.append(amount + (totals[-1] if totals else 0))
    return totals


def swap_axes(grid):
    return [list(column) for column in zip(*grid, strict=True)]


def multiply_down(n):
    product = 1
    for factor in range(2, n + 1):
        product *= factor
    return product


def add_up_digits(n):
    return sum(int(digit) for digit in str(n))


def same_letters(first, second):
    return sorted(first) == sorted(second)


def in_groups(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def find_in_sorted(values, target):
    return values.index(target) if target in values else -1


def fizz_words(n):
    return [("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0)) or str(i) for i in range(1, n + 1)]


def runner_up(scores):
    return sorted(set(scores))[-2]


def mismatches(first, second):
    return sum(a != b for a, b in zip(first, second, strict=True))


def add_down_columns(table):
    return [sum(column) for column in zip(*table, strict=True)]


def middle_value(samples):
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def headline(sentence):
    return " ".join(word[0].upper() + word[1:] for word in sentence.split())


def flip_mapping(mapping):
    return {value: key for key, value in mapping.items()}


def stock_after(stock, orders):
    left = dict(stock)
    for item in orders:
        if left.get(item, 0) > 0:
            left[item] -= 1
    return left


def local_peaks(heights):
    return [i for i in range(1, len(heights) - 1) if heights[i - 1] < heights[i] > heights[i + 1]]


def zigzag_sum(numbers):
    return sum(numbers[::2]) - sum(numbers[1::2])


def parse_duration(text):
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(part[:-1]) * units[part[-1]] for part in text.split())


def mask_number(card):
    return "*" * max(0, len(card) - 4) + card[-4:]


def equal_neighbours(items):
    import itertools  # noqa: PLC0415 - each answer stands alone

    return sum(a == b for a, b in itertools.pairwise(items))


def squeeze_blanks(text):
    return " ".join(text.split())


def rabbit_pairs(month):
    a, b = 0, 1
    for _ in range(month):
        a, b = b, a + b
    return a


def list_small_primes(limit):
    return [n for n in range(2, limit + 1) if all(n % d for d in range(2, int(n**0.5) + 1))]


def join_sorted(left, right):
    return sorted(left + right)


def best_streak(changes):
    best = current = changes[0]
    for change in changes[1:]:
        current = max(change, current + change)
        best = max(best, current)
    return best


def edits_needed(source, target):
    row = list(range(len(target) + 1))
    for i, a in enumerate(source, 1):
        following = [i]
        for j, b in enumerate(target, 1):
            following.append(min(row[j] + 1, following[-1] + 1, row[j - 1] + (a != b)))
        row = following
    return row[-1]


def brackets_match(code):
    openers = {")": "(", "]": "[", "}": "{"}
    stack = []
    for c in code:
        if c in "([{":
            stack.append(c)
        elif c in openers and (not stack or stack.pop() != openers[c]):
            return False
    return not stack


def roman_text(year):
    symbols = "M CM D CD C XC L XL X IX V IV I".split()
    values = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
    text = ""
    for value, symbol in zip(values, symbols, strict=True):
        count, year = divmod(year, value)
        text += symbol * count
    return text


def factor_list(n):
    factors = []
    divisor = 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors


def unnest(tree):
    leaves = []
    for node in tree:
        leaves.extend(unnest(node) if isinstance(node, list) else [node])
    return leaves


def pair_with_total(prices, total):
    for j, price in enumerate(prices):
        for i in range(j):
            if prices[i] + price == total:
                return [i, j]
    return None


def fewest_coins(coins, amount):
    reachable = {0}
    for count in range(amount + 1):
        if amount in reachable:
            return count
        reachable = {value + coin for value in reachable for coin in coins if value + coin <= amount}
    return -1


def squeeze_runs(text):
    runs = []
    for c in text:
        if runs and runs[-1][0] == c:
            runs[-1] = (c, runs[-1][1] + 1)
        else:
            runs.append((c, 1))
    return runs


def shift_cipher(message, places):
    def move(c):
        if not c.isalpha():
            return c
        base = ord("a") if c.islower() else ord("A")
        return chr((ord(c) - base + places) % 26 + base)

    return "".join(move(c) for c in message)


def peel_grid(grid):
    rows = [list(row) for row in grid]
    order = []
    while rows:
        order += rows.pop(0)
        rows = [list(row) for row in zip(*rows, strict=True)][::-1]
    return order


def shared_length(first, second):
    row = [0] * (len(second) + 1)
    for a in first:
        above = row
        row = [0]
        for j, b in enumerate(second):
            row.append(above[j] + 1 if a == b else max(row[-1], above[j + 1]))
    return row[-1]


def multiply_grids(p, q):
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*q, strict=True)] for row in p]


def ordered_copy(items):
    done = []
    for item in items:
        place = len(done)
        while place and done[place - 1] > item:
            place -= 1
        done.insert(place, item)
    return done


def ways_up(stairs):
    a, b = 1, 1
    for _ in range(stairs):
        a, b = b, a + b
    return a


def hailstone_steps(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def lucas_term(index):
    a, b = 2, 1
    for _ in range(index):
        a, b = b, a + b
    return a


def count_islands(grid):
    land = {(y, x) for y, row in enumerate(grid) for x, cell in enumerate(row) if cell == 1}
    count = 0
    while land:
        count += 1
        stack = [land.pop()]
        while stack:
            y, x = stack.pop()
            for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if near in land:
                    land.remove(near)
                    stack.append(near)
    return count


def longest_climb(heights):
    best = []
    for i, height in enumerate(heights):
        best.append(1 + max((best[j] for j in range(i) if heights[j] < height), default=0))
    return max(best, default=0)


def best_load(weights, values, capacity):
    best = [0] * (capacity + 1)
    for weight, value in zip(weights, values, strict=True):
        for room in range(capacity, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[capacity]


def postfix_value(tokens):
    stack = []
    for token in tokens:
        if token in ("+", "-", "*"):
            b, a = stack.pop(), stack.pop()
            stack.append(a + b if token == "+" else a - b if token == "-" else a * b)
        else:
            stack.append(int(token))
    return stack[0]


def busy_times(meetings):
    merged = []
    for start, end in sorted(meetings):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def queen_placements(n):
    def place(row, columns, rising, falling):
        if row == n:
            return 1
        return sum(
            place(row + 1, columns | {c}, rising | {row + c}, falling | {row - c})
            for c in range(n)
            if c not in columns and row + c not in rising and row - c not in falling
        )

    return place(0, frozenset(), frozenset(), frozenset())
