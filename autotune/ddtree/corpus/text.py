"""Families about strings: characters, words, formats, encodings.

One entry a family and nothing else; the file is long because it is data.
"""

from __future__ import annotations

from autotune.ddtree.corpus.family import Family, family

FAMILIES: tuple[Family, ...] = (
    family(
        "reverse_words flip_words",
        "S",
        ["returns $a with the order of its words reversed", "reverses the order of words in $a"],
        [
            "return ' '.join($a.split()[::-1])",
            """
            $r = $a.split()
            $r.reverse()
            return ' '.join($r)
            """,
        ],
        [("a bc def",), ("hello world",)],
    ),
    family(
        "reverse_string reverse_text backwards",
        "S",
        ["returns $a reversed", "reverses the string $a"],
        [
            "return $a[::-1]",
            """
            $r = ''
            for $c in $a:
                $r = $c + $r
            return $r
            """,
        ],
        [("abc",), ("",)],
    ),
    family(
        "is_palindrome palindrome check_palindrome",
        "S",
        ["returns True if $a is a palindrome", "checks whether $a reads the same forwards and backwards"],
        [
            "return $a == $a[::-1]",
            """
            $i, j2 = 0, len($a) - 1
            while $i < j2:
                if $a[$i] != $a[j2]:
                    return False
                $i += 1
                j2 -= 1
            return True
            """,
        ],
        [("abba",), ("abc",), ("a",)],
    ),
    family(
        "is_anagram anagram are_anagrams",
        "SS",
        ["returns True if $a and $b are anagrams", "checks whether $a is an anagram of $b"],
        ["return sorted($a) == sorted($b)"],
        [("listen", "silent"), ("ab", "abc")],
    ),
    family(
        "from_roman roman_to_int",
        "S",
        ["converts the Roman numeral $a to an integer", "returns the integer value of the Roman numeral $a"],
        [
            """
            values = {'I': 1, 'V': 5, 'X': 10, 'L': 50, 'C': 100, 'D': 500, 'M': 1000}
            $t = 0
            prev = 0
            for $c in reversed($a):
                cur = values[$c]
                if cur < prev:
                    $t -= cur
                else:
                    $t += cur
                    prev = cur
            return $t
            """
        ],
        [("IV",), ("MCMXCIV",), ("LVIII",)],
    ),
    family(
        "word_count count_words_map word_freq",
        "S",
        ["returns a dictionary with the count of each word in $a", "counts how often each word occurs in $a"],
        [
            """
            counts = {}
            for w in $a.split():
                counts[w] = counts.get(w, 0) + 1
            return counts
            """
        ],
        [("a b a",)],
    ),
    family(
        "char_count char_freq letter_counts",
        "S",
        ["returns a dictionary with the count of each character in $a", "counts how often each character occurs in $a"],
        [
            """
            counts = {}
            for $c in $a:
                counts[$c] = counts.get($c, 0) + 1
            return counts
            """
        ],
        [("abca",)],
    ),
    family(
        "longest_word find_longest_word",
        "S",
        ["returns the longest word in $a", "finds the longest word of $a"],
        [
            "return max($a.split(), key=len)",
            """
            best = ''
            for w in $a.split():
                if len(w) > len(best):
                    best = w
            return best
            """,
        ],
        [("a bcd ef",)],
    ),
    family(
        "shortest_word find_shortest_word",
        "S",
        ["returns the shortest word in $a", "finds the shortest word of $a"],
        ["return min($a.split(), key=len)"],
        [("abc d ef",)],
    ),
    family(
        "title_case capitalize_words",
        "S",
        ["capitalizes the first letter of every word in $a", "returns $a with each word capitalized"],
        ["return ' '.join(w.capitalize() for w in $a.split())"],
        [("hello big world",)],
    ),
    family(
        "caesar caesar_cipher shift_text",
        "SN",
        ["encrypts $a with a Caesar shift of $b", "returns $a with every letter shifted by $b places"],
        [
            """
            $r = ''
            for $c in $a:
                if $c.islower():
                    $r += chr((ord($c) - 97 + $b) % 26 + 97)
                elif $c.isupper():
                    $r += chr((ord($c) - 65 + $b) % 26 + 65)
                else:
                    $r += $c
            return $r
            """
        ],
        [("abc xyz", 3), ("Hi!", 1)],
    ),
    family(
        "run_length_encode rle encode",
        "S",
        ["returns the run-length encoding of $a as a list of pairs", "compresses $a into (character, count) pairs"],
        [
            """
            $r = []
            for $c in $a:
                if $r and $r[-1][0] == $c:
                    $r[-1] = ($c, $r[-1][1] + 1)
                else:
                    $r.append(($c, 1))
            return $r
            """
        ],
        [("aabccc",), ("",)],
    ),
    family(
        "balanced is_balanced valid_parens",
        "S",
        [
            "returns True if the brackets in $a are balanced",
            "checks whether every bracket in $a is closed in the right order",
        ],
        [
            """
            pairs = {')': '(', ']': '[', '}': '{'}
            stack = []
            for $c in $a:
                if $c in '([{':
                    stack.append($c)
                elif $c in pairs:
                    if not stack or stack.pop() != pairs[$c]:
                        return False
            return not stack
            """
        ],
        [("([]{})",), ("(]",), ("((",)],
    ),
    family(
        "from_binary binary_to_int",
        "S",
        ["converts the binary string $a to an integer", "returns the integer represented by the binary string $a"],
        [
            """
            $r = 0
            for $c in $a:
                $r = $r * 2 + int($c)
            return $r
            """,
            "return int($a, 2)",
        ],
        [("101",), ("0",)],
    ),
    family(
        "hamming hamming_distance",
        "SS",
        ["returns the Hamming distance between $a and $b", "counts the positions where $a and $b differ"],
        ["return sum(p != q for p, q in zip($a, $b))"],
        [("karolin", "kathrin")],
        held_out=True,
    ),
    family(
        "levenshtein edit_distance",
        "SS",
        ["returns the edit distance between $a and $b", "computes the Levenshtein distance of $a and $b"],
        [
            """
            prev = list(range(len($b) + 1))
            for i, p in enumerate($a, 1):
                cur = [i]
                for j, q in enumerate($b, 1):
                    cost = 0 if p == q else 1
                    cur.append(min(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + cost))
                prev = cur
            return prev[-1]
            """
        ],
        [("kitten", "sitting"), ("", "ab")],
    ),
    family(
        "lcs longest_common_subsequence",
        "SS",
        ["returns the length of the longest common subsequence of $a and $b"],
        [
            """
            dp = [[0] * (len($b) + 1) for _ in range(len($a) + 1)]
            for i in range(len($a)):
                for j in range(len($b)):
                    if $a[i] == $b[j]:
                        dp[i + 1][j + 1] = dp[i][j] + 1
                    else:
                        dp[i + 1][j + 1] = max(dp[i][j + 1], dp[i + 1][j])
            return dp[-1][-1]
            """
        ],
        [("abcde", "ace")],
    ),
    family(
        "is_pangram pangram",
        "S",
        ["returns True if $a contains every letter of the alphabet", "checks whether $a is a pangram"],
        ["return set('abcdefghijklmnopqrstuvwxyz') <= set($a.lower())"],
        [("the quick brown fox jumps over the lazy dog",), ("abc",)],
    ),
    family(
        "is_isogram has_unique_chars",
        "S",
        ["returns True if no character in $a repeats", "checks whether all characters of $a are different"],
        ["return len(set($a)) == len($a)"],
        [("abc",), ("aba",)],
    ),
    family(
        "first_unique_char first_non_repeating",
        "S",
        ["returns the first character of $a that does not repeat, or None", "finds the first unique character of $a"],
        [
            """
            for $c in $a:
                if $a.count($c) == 1:
                    return $c
            return None
            """
        ],
        [("aabcb",), ("aa",)],
    ),
    family(
        "acronym initials",
        "S",
        ["returns the acronym of $a", "builds an acronym from the first letters of the words in $a"],
        ["return ''.join(w[0].upper() for w in $a.split())"],
        [("as soon as possible",)],
    ),
    family(
        "snake_to_camel to_camel",
        "S",
        ["converts the snake_case name $a to camelCase", "turns $a from snake_case into camelCase"],
        [
            """
            parts = $a.split('_')
            return parts[0] + ''.join(p.capitalize() for p in parts[1:])
            """
        ],
        [("my_var_name",)],
    ),
    family(
        "camel_to_snake to_snake",
        "S",
        ["converts the camelCase name $a to snake_case", "turns $a from camelCase into snake_case"],
        [
            """
            $r = ''
            for $c in $a:
                if $c.isupper():
                    $r += '_' + $c.lower()
                else:
                    $r += $c
            return $r
            """
        ],
        [("myVarName",)],
    ),
    family(
        "swap_case toggle_case",
        "S",
        ["swaps upper and lower case in $a"],
        ["return ''.join($c.lower() if $c.isupper() else $c.upper() for $c in $a)"],
        [("aBc",)],
        held_out=True,
    ),
    family(
        "truncate shorten",
        "SN",
        [
            "shortens $a to at most $b characters and adds '...' if it was cut",
            "truncates $a to $b characters with an ellipsis",
        ],
        [
            """
            if len($a) <= $b:
                return $a
            return $a[:$b] + '...'
            """
        ],
        [("hello", 3), ("hi", 3)],
        held_out=True,
    ),
    family(
        "repeat_string repeat_text",
        "SN",
        ["returns $a repeated $b times"],
        [
            "return $a * $b",
            """
            $r = ''
            for _ in range($b):
                $r += $a
            return $r
            """,
        ],
        [("ab", 3)],
    ),
    family(
        "pad_left left_pad",
        "SN",
        ["pads $a on the left with spaces to the width $b"],
        ["return ' ' * ($b - len($a)) + $a"],
        [("ab", 4), ("abc", 2)],
    ),
    family(
        "count_substring count_sub",
        "SS",
        [
            "counts how often $b occurs in $a, with overlaps",
            "returns the number of overlapping occurrences of $b in $a",
        ],
        [
            """
            count = 0
            for i in range(len($a) - len($b) + 1):
                if $a[i:i + len($b)] == $b:
                    count += 1
            return count
            """
        ],
        [("aaaa", "aa")],
    ),
    family(
        "is_subsequence subsequence",
        "SS",
        ["returns True if $a is a subsequence of $b"],
        [
            """
            i = 0
            for ch2 in $b:
                if i < len($a) and ch2 == $a[i]:
                    i += 1
            return i == len($a)
            """
        ],
        [("ace", "abcde"), ("aec", "abcde")],
    ),
    family(
        "parse_query query_to_dict",
        "S",
        ["parses the query string $a into a dictionary", "converts key=value pairs joined by & in $a to a dictionary"],
        [
            """
            $r = {}
            for part in $a.split('&'):
                key, value = part.split('=')
                $r[key] = value
            return $r
            """
        ],
        [("a=1&b=2",)],
    ),
    family(
        "parse_csv_line split_csv",
        "S",
        ["splits the comma separated line $a and strips each field"],
        ["return [field.strip() for field in $a.split(',')]"],
        [("a, b ,c",)],
    ),
)
