"""Families about single numbers: arithmetic, digits, divisors, sequences, small formulas.

One entry a family and nothing else; the file is long because it is data.
"""

from __future__ import annotations

from autotune.ddtree.corpus.family import Family, family

FAMILIES: tuple[Family, ...] = (
    family(
        "fib fibonacci nth_fib",
        "N",
        ["returns the $a-th Fibonacci number", "computes Fibonacci number $a, starting from 0 and 1"],
        [
            """
            p, q = 0, 1
            for _ in range($a):
                p, q = q, p + q
            return p
            """,
            """
            if $a < 2:
                return $a
            return $f($a - 1) + $f($a - 2)
            """,
        ],
        [(0,), (1,), (7,), (12,)],
    ),
    family(
        "is_prime check_prime prime_test",
        "N",
        ["returns True if $a is a prime number", "checks whether $a is prime"],
        [
            """
            if $a < 2:
                return False
            for $i in range(2, int($a ** 0.5) + 1):
                if $a % $i == 0:
                    return False
            return True
            """
        ],
        [(1,), (2,), (9,), (17,), (91,)],
    ),
    family(
        "gcd greatest_common_divisor hcf",
        "NN",
        ["returns the greatest common divisor of $a and $b", "computes the GCD of $a and $b"],
        [
            """
            while $b:
                $a, $b = $b, $a % $b
            return $a
            """,
            """
            if $b == 0:
                return $a
            return $f($b, $a % $b)
            """,
        ],
        [(12, 18), (7, 5), (100, 75)],
    ),
    family(
        "lcm least_common_multiple",
        "NN",
        ["returns the least common multiple of $a and $b"],
        [
            """
            p, q = $a, $b
            while q:
                p, q = q, p % q
            return $a * $b // p
            """
        ],
        [(4, 6), (7, 3), (10, 15)],
    ),
    family(
        "factorial fact compute_factorial",
        "N",
        ["returns the factorial of $a", "computes $a factorial"],
        [
            """
            $r = 1
            for $i in range(2, $a + 1):
                $r *= $i
            return $r
            """,
            """
            if $a <= 1:
                return 1
            return $a * $f($a - 1)
            """,
        ],
        [(0,), (5,), (8,)],
    ),
    family(
        "to_roman int_to_roman roman_numeral",
        "N",
        ["converts the integer $a to a Roman numeral", "returns $a written as a Roman numeral"],
        [
            """
            pairs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
            $r = ''
            for value, symbol in pairs:
                while $a >= value:
                    $r += symbol
                    $a -= value
            return $r
            """
        ],
        [(4,), (1994,), (58,)],
    ),
    family(
        "identity identity_matrix eye",
        "N",
        ["returns the $a by $a identity matrix"],
        ["return [[1 if i == j else 0 for j in range($a)] for i in range($a)]"],
        [(2,), (3,)],
    ),
    family(
        "power fast_pow pow_int",
        "NN",
        [
            "returns $a raised to the power $b using repeated squaring",
            "computes $a to the power $b by fast exponentiation",
        ],
        [
            """
            $r = 1
            base = $a
            exp = $b
            while exp > 0:
                if exp % 2 == 1:
                    $r *= base
                base *= base
                exp //= 2
            return $r
            """
        ],
        [(2, 10), (3, 0), (5, 3)],
    ),
    family(
        "digit_sum sum_digits",
        "N",
        ["returns the sum of the digits of $a", "adds up the decimal digits of $a"],
        [
            "return sum(int(d) for d in str($a))",
            """
            $t = 0
            while $a > 0:
                $t += $a % 10
                $a //= 10
            return $t
            """,
        ],
        [(123,), (0,), (9999,)],
    ),
    family(
        "reverse_number reverse_int",
        "N",
        ["returns $a with its decimal digits reversed"],
        ["return int(str($a)[::-1])"],
        [(123,), (100,)],
    ),
    family(
        "digital_root repeated_digit_sum",
        "N",
        ["returns the digital root of $a", "sums the digits of $a until one digit is left"],
        [
            """
            while $a >= 10:
                $a = sum(int(d) for d in str($a))
            return $a
            """
        ],
        [(987,), (5,)],
    ),
    family(
        "is_armstrong armstrong narcissistic",
        "N",
        [
            "returns True if $a is an Armstrong number",
            "checks whether $a equals the sum of its digits raised to the number of digits",
        ],
        [
            """
            digits = str($a)
            return $a == sum(int(d) ** len(digits) for d in digits)
            """
        ],
        [(153,), (154,)],
    ),
    family(
        "is_perfect perfect_number",
        "N",
        ["returns True if $a is a perfect number", "checks whether $a equals the sum of its proper divisors"],
        ["return $a > 1 and $a == sum(d for d in range(1, $a) if $a % d == 0)"],
        [(6,), (28,), (10,)],
        held_out=True,
    ),
    family(
        "is_leap leap_year is_leap_year",
        "N",
        ["returns True if $a is a leap year", "checks whether the year $a is a leap year"],
        ["return $a % 4 == 0 and ($a % 100 != 0 or $a % 400 == 0)"],
        [(2000,), (1900,), (2024,)],
    ),
    family(
        "is_power_of_two power_of_two",
        "N",
        ["returns True if $a is a power of two", "checks whether $a is a power of 2"],
        ["return $a > 0 and $a & ($a - 1) == 0"],
        [(8,), (6,), (0,)],
    ),
    family(
        "divisors get_divisors factors",
        "N",
        ["returns all divisors of $a", "lists the positive divisors of $a in ascending order"],
        ["return [d for d in range(1, $a + 1) if $a % d == 0]"],
        [(12,), (7,)],
    ),
    family(
        "prime_factors factorize",
        "N",
        ["returns the prime factors of $a in ascending order", "factorizes $a into primes"],
        [
            """
            $r = []
            d = 2
            while d * d <= $a:
                while $a % d == 0:
                    $r.append(d)
                    $a //= d
                d += 1
            if $a > 1:
                $r.append($a)
            return $r
            """
        ],
        [(12,), (97,), (360,)],
    ),
    family(
        "sieve primes_up_to list_primes",
        "N",
        ["returns all primes up to $a", "uses the sieve of Eratosthenes to list the primes not greater than $a"],
        [
            """
            if $a < 2:
                return []
            flags = [True] * ($a + 1)
            flags[0] = flags[1] = False
            for i in range(2, int($a ** 0.5) + 1):
                if flags[i]:
                    for j in range(i * i, $a + 1, i):
                        flags[j] = False
            return [i for i, ok in enumerate(flags) if ok]
            """
        ],
        [(20,), (1,)],
    ),
    family(
        "collatz collatz_steps",
        "N",
        [
            "returns the number of Collatz steps needed to get from $a to 1",
            "counts the steps of the Collatz sequence starting at $a",
        ],
        [
            """
            steps = 0
            while $a != 1:
                if $a % 2 == 0:
                    $a //= 2
                else:
                    $a = 3 * $a + 1
                steps += 1
            return steps
            """
        ],
        [(6,), (1,), (27,)],
    ),
    family(
        "to_binary int_to_binary binary_string",
        "N",
        [
            "converts the non-negative integer $a to a binary string",
            "returns the binary representation of $a as a string",
        ],
        [
            """
            if $a == 0:
                return '0'
            $r = ''
            while $a > 0:
                $r = str($a % 2) + $r
                $a //= 2
            return $r
            """,
            "return bin($a)[2:]",
        ],
        [(5,), (0,), (255,)],
    ),
    family(
        "fizzbuzz fizz_buzz",
        "N",
        ["returns the FizzBuzz list from 1 to $a", "builds the list of FizzBuzz strings for 1 to $a"],
        [
            """
            $r = []
            for i in range(1, $a + 1):
                if i % 15 == 0:
                    $r.append('FizzBuzz')
                elif i % 3 == 0:
                    $r.append('Fizz')
                elif i % 5 == 0:
                    $r.append('Buzz')
                else:
                    $r.append(str(i))
            return $r
            """
        ],
        [(15,)],
    ),
    family(
        "pascal_row pascals_row",
        "N",
        ["returns row $a of Pascal's triangle", "computes the row with index $a of Pascal's triangle"],
        [
            """
            row = [1]
            for _ in range($a):
                row = [1] + [row[i] + row[i + 1] for i in range(len(row) - 1)] + [1]
            return row
            """
        ],
        [(0,), (4,)],
    ),
    family(
        "binomial choose n_choose_k",
        "NN",
        ["returns the binomial coefficient $a choose $b"],
        [
            """
            $r = 1
            for i in range($b):
                $r = $r * ($a - i) // (i + 1)
            return $r
            """
        ],
        [(5, 2), (6, 0)],
    ),
    family(
        "hanoi hanoi_moves",
        "N",
        ["returns the number of moves to solve the Tower of Hanoi with $a discs"],
        [
            "return 2 ** $a - 1",
            """
            if $a == 0:
                return 0
            return 2 * $f($a - 1) + 1
            """,
        ],
        [(3,), (0,)],
    ),
    family(
        "climb_stairs count_ways",
        "N",
        ["returns the number of ways to climb $a stairs taking 1 or 2 steps at a time"],
        [
            """
            p, q = 1, 1
            for _ in range($a):
                p, q = q, p + q
            return p
            """
        ],
        [(1,), (5,)],
        held_out=True,
    ),
    family(
        "clamp limit_value",
        "FFF",
        ["limits $a to the range from $b to $c", "returns $a clamped between $b and $c"],
        [
            "return max($b, min($a, $c))",
            """
            if $a < $b:
                return $b
            if $a > $c:
                return $c
            return $a
            """,
        ],
        [(5, 0, 3), (-1, 0, 3), (2, 0, 3)],
    ),
    family(
        "is_triangle valid_triangle",
        "FFF",
        ["returns True if $a, $b and $c can be the sides of a triangle"],
        ["return $a + $b > $c and $a + $c > $b and $b + $c > $a"],
        [(3, 4, 5), (1, 2, 9)],
    ),
    family(
        "solve_quadratic quadratic_roots",
        "FFF",
        ["returns the real roots of the quadratic equation with coefficients $a, $b and $c"],
        [
            """
            disc = $b * $b - 4 * $a * $c
            if disc < 0:
                return []
            root = disc ** 0.5
            return [(-$b - root) / (2 * $a), (-$b + root) / (2 * $a)]
            """
        ],
        [(1, -3, 2), (1, 0, 1)],
    ),
    family(
        "distance euclidean_distance",
        "FFFF",
        ["returns the distance between the points ($a, $b) and ($c, $d)"],
        ["return (($a - $c) ** 2 + ($b - $d) ** 2) ** 0.5"],
        [(0, 0, 3, 4)],
    ),
    family(
        "safe_divide divide_or_none",
        "FF",
        ["divides $a by $b and returns None if $b is zero"],
        [
            """
            if $b == 0:
                return None
            return $a / $b
            """,
            """
            try:
                return $a / $b
            except ZeroDivisionError:
                return None
            """,
        ],
        [(6, 3), (1, 0)],
    ),
    family(
        "compound_interest future_value",
        "FFF",
        ["returns the value of $a after $c years at the yearly rate $b percent"],
        ["return $a * (1 + $b / 100) ** $c"],
        [(100, 10, 2)],
    ),
    family(
        "bmi body_mass_index",
        "FF",
        ["returns the body mass index for the weight $a and the height $b"],
        ["return $a / $b ** 2"],
        [(80, 2)],
    ),
    family(
        "format_time seconds_to_hms",
        "N",
        ["formats $a seconds as HH:MM:SS", "returns $a seconds as a string in HH:MM:SS format"],
        [
            """
            hours = $a // 3600
            minutes = $a % 3600 // 60
            seconds = $a % 60
            return f'{hours:02d}:{minutes:02d}:{seconds:02d}'
            """
        ],
        [(3661,), (59,)],
    ),
)
