"""Families about lists: searching, sorting, splitting, comparing, combining.

One entry a family and nothing else; the file is long because it is data.
"""

from __future__ import annotations

from autotune.ddtree.corpus.family import Family, family

FAMILIES: tuple[Family, ...] = (
    family(
        "two_sum find_pair pair_sum",
        "LN",
        [
            "returns the indices of two numbers in $a that add up to $b",
            "finds two positions in $a whose values sum to $b",
        ],
        [
            """
            seen = {}
            for $i, $v in enumerate($a):
                if $b - $v in seen:
                    return [seen[$b - $v], $i]
                seen[$v] = $i
            return None
            """
        ],
        [([2, 7, 11, 15], 9), ([3, 2, 4], 6), ([1, 2], 9)],
    ),
    family(
        "flatten flatten_list",
        "L",
        ["returns a flat list with all elements of the nested list $a", "flattens the list of lists $a one level"],
        [
            "return [$v for sub in $a for $v in sub]",
            """
            $r = []
            for sub in $a:
                $r.extend(sub)
            return $r
            """,
        ],
        [([[1, 2], [3], []],)],
    ),
    family(
        "deep_flatten flatten_deep",
        "L",
        ["flattens an arbitrarily nested list $a", "returns all leaves of the nested list $a"],
        [
            """
            $r = []
            for $v in $a:
                if isinstance($v, list):
                    $r.extend($f($v))
                else:
                    $r.append($v)
            return $r
            """
        ],
        [([1, [2, [3, [4]]]],)],
    ),
    family(
        "merge_sorted merge_lists",
        "LL",
        ["merges the sorted lists $a and $b into one sorted list", "returns a sorted merge of $a and $b"],
        [
            """
            $r = []
            i, j = 0, 0
            while i < len($a) and j < len($b):
                if $a[i] <= $b[j]:
                    $r.append($a[i])
                    i += 1
                else:
                    $r.append($b[j])
                    j += 1
            return $r + $a[i:] + $b[j:]
            """
        ],
        [([1, 4, 6], [2, 3, 9]), ([], [1])],
    ),
    family(
        "binary_search bsearch find_index",
        "LN",
        [
            "returns the index of $b in the sorted list $a, or -1",
            "uses binary search to find $b in $a and returns -1 if it is missing",
        ],
        [
            """
            lo, hi = 0, len($a) - 1
            while lo <= hi:
                mid = (lo + hi) // 2
                if $a[mid] == $b:
                    return mid
                if $a[mid] < $b:
                    lo = mid + 1
                else:
                    hi = mid - 1
            return -1
            """
        ],
        [([1, 3, 5, 7], 5), ([1, 3], 2), ([], 1)],
    ),
    family(
        "bubble_sort sort_bubble",
        "L",
        ["sorts $a with bubble sort and returns a new list", "returns $a sorted using bubble sort"],
        [
            """
            $r = list($a)
            for i in range(len($r)):
                for j in range(len($r) - 1 - i):
                    if $r[j] > $r[j + 1]:
                        $r[j], $r[j + 1] = $r[j + 1], $r[j]
            return $r
            """
        ],
        [([3, 1, 2],), ([],)],
    ),
    family(
        "insertion_sort sort_insertion",
        "L",
        ["sorts $a with insertion sort and returns a new list", "returns $a sorted using insertion sort"],
        [
            """
            $r = list($a)
            for i in range(1, len($r)):
                key = $r[i]
                j = i - 1
                while j >= 0 and $r[j] > key:
                    $r[j + 1] = $r[j]
                    j -= 1
                $r[j + 1] = key
            return $r
            """
        ],
        [([3, 1, 2],), ([5, 4, 4],)],
        held_out=True,
    ),
    family(
        "selection_sort sort_selection",
        "L",
        ["sorts $a with selection sort and returns a new list", "returns $a sorted using selection sort"],
        [
            """
            $r = list($a)
            for i in range(len($r)):
                low = i
                for j in range(i + 1, len($r)):
                    if $r[j] < $r[low]:
                        low = j
                $r[i], $r[low] = $r[low], $r[i]
            return $r
            """
        ],
        [([3, 1, 2],), ([5, 4, 4],)],
    ),
    family(
        "quick_sort quicksort",
        "L",
        ["sorts $a with quicksort", "returns $a sorted using the quicksort algorithm"],
        [
            """
            if len($a) <= 1:
                return list($a)
            pivot = $a[len($a) // 2]
            left = [$v for $v in $a if $v < pivot]
            middle = [$v for $v in $a if $v == pivot]
            right = [$v for $v in $a if $v > pivot]
            return $f(left) + middle + $f(right)
            """
        ],
        [([3, 1, 2],), ([5, 4, 4],)],
    ),
    family(
        "merge_sort mergesort",
        "L",
        ["sorts $a with merge sort", "returns $a sorted using the merge sort algorithm"],
        [
            """
            if len($a) <= 1:
                return list($a)
            mid = len($a) // 2
            left = $f($a[:mid])
            right = $f($a[mid:])
            $r = []
            while left and right:
                if left[0] <= right[0]:
                    $r.append(left.pop(0))
                else:
                    $r.append(right.pop(0))
            return $r + left + right
            """
        ],
        [([3, 1, 2],), ([5, 4, 4],)],
    ),
    family(
        "unique remove_duplicates dedupe",
        "L",
        [
            "returns $a without duplicates, keeping the order",
            "removes repeated elements from $a while preserving order",
        ],
        [
            """
            seen = set()
            $r = []
            for $v in $a:
                if $v not in seen:
                    seen.add($v)
                    $r.append($v)
            return $r
            """,
            "return list(dict.fromkeys($a))",
        ],
        [([1, 2, 1, 3, 2],)],
    ),
    family(
        "chunk chunk_list split_chunks",
        "LN",
        ["splits $a into chunks of size $b", "returns a list of consecutive chunks of $a, each of length at most $b"],
        ["return [$a[$i:$i + $b] for $i in range(0, len($a), $b)]"],
        [([1, 2, 3, 4, 5], 2)],
    ),
    family(
        "rotate rotate_left rotate_list",
        "LN",
        ["rotates $a to the left by $b positions", "returns $a rotated left $b times"],
        [
            """
            if not $a:
                return []
            shift = $b % len($a)
            return $a[shift:] + $a[:shift]
            """
        ],
        [([1, 2, 3, 4], 1), ([], 3)],
    ),
    family(
        "rotate_right shift_right",
        "LN",
        ["rotates $a to the right by $b positions", "returns $a rotated right $b times"],
        [
            """
            if not $a:
                return []
            shift = $b % len($a)
            return $a[-shift:] + $a[:-shift]
            """
        ],
        [([1, 2, 3, 4], 1), ([], 3)],
    ),
    family(
        "second_largest second_max",
        "L",
        ["returns the second largest distinct value in $a", "finds the second largest element of $a"],
        [
            """
            distinct = sorted(set($a))
            if len(distinct) < 2:
                return None
            return distinct[-2]
            """
        ],
        [([4, 1, 4, 3],), ([1],)],
        held_out=True,
    ),
    family(
        "mode most_common most_frequent",
        "L",
        ["returns the most frequent element of $a", "finds the value that appears most often in $a"],
        [
            """
            counts = {}
            for $v in $a:
                counts[$v] = counts.get($v, 0) + 1
            return max(counts, key=counts.get)
            """
        ],
        [([1, 2, 2, 3],)],
    ),
    family(
        "median find_median",
        "L",
        ["returns the median of $a", "computes the median of the numbers in $a"],
        [
            """
            ordered = sorted($a)
            mid = len(ordered) // 2
            if len(ordered) % 2:
                return ordered[mid]
            return (ordered[mid - 1] + ordered[mid]) / 2
            """
        ],
        [([3, 1, 2],), ([4, 1, 2, 3],)],
    ),
    family(
        "mean average avg",
        "L",
        ["returns the average of $a", "computes the arithmetic mean of $a, or 0 if it is empty"],
        [
            """
            if not $a:
                return 0
            return sum($a) / len($a)
            """
        ],
        [([1, 2, 3],), ([],)],
    ),
    family(
        "variance var",
        "L",
        ["returns the population variance of $a"],
        [
            """
            mean = sum($a) / len($a)
            return sum(($v - mean) ** 2 for $v in $a) / len($a)
            """
        ],
        [([1, 2, 3, 4],)],
    ),
    family(
        "running_sum prefix_sums cumulative_sum",
        "L",
        ["returns the running totals of $a", "computes the cumulative sums of $a"],
        [
            """
            $r = []
            $t = 0
            for $v in $a:
                $t += $v
                $r.append($t)
            return $r
            """
        ],
        [([1, 2, 3],), ([],)],
    ),
    family(
        "max_subarray kadane max_sub_sum",
        "L",
        [
            "returns the largest sum of a contiguous subarray of $a",
            "finds the maximum subarray sum of $a using Kadane's algorithm",
        ],
        [
            """
            best = cur = $a[0]
            for value in $a[1:]:
                cur = max(value, cur + value)
                best = max(best, cur)
            return best
            """
        ],
        [([-2, 1, -3, 4, -1, 2, 1, -5, 4],), ([-1],)],
    ),
    family(
        "is_sorted check_sorted",
        "L",
        ["returns True if $a is sorted in ascending order", "checks whether the elements of $a never decrease"],
        [
            "return all($a[$i] <= $a[$i + 1] for $i in range(len($a) - 1))",
            """
            for $i in range(1, len($a)):
                if $a[$i] < $a[$i - 1]:
                    return False
            return True
            """,
        ],
        [([1, 2, 2],), ([2, 1],)],
    ),
    family(
        "run_length_decode decode_rle decode",
        "L",
        ["decodes the run-length pairs in $a into a string", "expands (character, count) pairs in $a to a string"],
        ["return ''.join($c * times for $c, times in $a)"],
        [([("a", 2), ("b", 1)],)],
    ),
    family(
        "common_prefix longest_common_prefix",
        "L",
        [
            "returns the longest common prefix of the strings in $a",
            "finds the longest prefix shared by all strings in $a",
        ],
        [
            """
            if not $a:
                return ''
            prefix = $a[0]
            for s2 in $a[1:]:
                while not s2.startswith(prefix):
                    prefix = prefix[:-1]
            return prefix
            """
        ],
        [(["flower", "flow", "flight"],), ([],)],
    ),
    family(
        "group_by_length words_by_length",
        "L",
        [
            "groups the words in $a by their length",
            "returns a dictionary that maps each length to the words of $a with that length",
        ],
        [
            """
            groups = {}
            for w in $a:
                groups.setdefault(len(w), []).append(w)
            return groups
            """
        ],
        [(["a", "bb", "c"],)],
    ),
    family(
        "group_by_first words_by_letter",
        "L",
        ["groups the words in $a by their first letter"],
        [
            """
            groups = {}
            for w in $a:
                groups.setdefault(w[0], []).append(w)
            return groups
            """
        ],
        [(["ab", "ba", "ac"],)],
    ),
    family(
        "coin_change min_coins",
        "LN",
        [
            "returns the fewest coins from $a needed to make $b, or -1",
            "finds the minimum number of coins of the values $a that sum to $b",
        ],
        [
            """
            best = [0] + [float('inf')] * $b
            for total in range(1, $b + 1):
                for coin in $a:
                    if coin <= total:
                        best[total] = min(best[total], best[total - coin] + 1)
            return best[$b] if best[$b] != float('inf') else -1
            """
        ],
        [([1, 2, 5], 11), ([2], 3)],
    ),
    family(
        "permutations all_permutations",
        "L",
        ["returns all permutations of $a as lists", "lists every ordering of $a"],
        [
            """
            if len($a) <= 1:
                return [list($a)]
            $r = []
            for i in range(len($a)):
                for rest in $f($a[:i] + $a[i + 1:]):
                    $r.append([$a[i]] + rest)
            return $r
            """
        ],
        [([1, 2, 3],)],
    ),
    family(
        "power_set subsets all_subsets",
        "L",
        ["returns all subsets of $a", "lists every subset of $a"],
        [
            """
            $r = [[]]
            for $v in $a:
                $r += [sub + [$v] for sub in $r]
            return $r
            """
        ],
        [([1, 2, 3],)],
    ),
    family(
        "intersection common_elements",
        "LL",
        ["returns the elements of $a that are also in $b", "finds the common elements of $a and $b"],
        [
            "return [$v for $v in $a if $v in $b]",
            """
            lookup = set($b)
            return [$v for $v in $a if $v in lookup]
            """,
        ],
        [([1, 2, 3], [2, 3, 4])],
    ),
    family(
        "difference list_difference",
        "LL",
        ["returns the elements of $a that are not in $b", "removes the elements of $b from $a"],
        [
            "return [$v for $v in $a if $v not in $b]",
            """
            lookup = set($b)
            return [$v for $v in $a if $v not in lookup]
            """,
        ],
        [([1, 2, 3], [2])],
    ),
    family(
        "union list_union",
        "LL",
        ["returns the union of $a and $b without duplicates"],
        ["return list(dict.fromkeys($a + $b))"],
        [([1, 2], [2, 3])],
    ),
    family(
        "dot_product dot inner_product",
        "LL",
        ["returns the dot product of $a and $b", "computes the inner product of the vectors $a and $b"],
        [
            "return sum(p * q for p, q in zip($a, $b))",
            """
            $t = 0
            for p, q in zip($a, $b):
                $t += p * q
            return $t
            """,
        ],
        [([1, 2], [3, 4])],
    ),
    family(
        "add_vectors vector_sum",
        "LL",
        ["returns the element-wise sum of $a and $b"],
        ["return [p + q for p, q in zip($a, $b)]"],
        [([1, 2], [3, 4])],
    ),
    family(
        "interleave zip_lists alternate",
        "LL",
        ["interleaves the elements of $a and $b", "returns a list that alternates the elements of $a and $b"],
        [
            """
            $r = []
            for p, q in zip($a, $b):
                $r.append(p)
                $r.append(q)
            return $r
            """
        ],
        [([1, 2], [3, 4])],
    ),
    family(
        "linear_search find_position index_of",
        "LN",
        [
            "returns the first index of $b in $a, or -1",
            "searches $a from left to right for $b and returns -1 if it is missing",
        ],
        [
            """
            for $i, $v in enumerate($a):
                if $v == $b:
                    return $i
            return -1
            """
        ],
        [([4, 5, 6], 5), ([1], 2)],
    ),
    family(
        "count_occurrences occurrences count_value",
        "LN",
        ["returns how many times $b occurs in $a", "counts the elements of $a equal to $b"],
        ["return sum(1 for $v in $a if $v == $b)", "return $a.count($b)"],
        [([1, 2, 1], 1)],
    ),
    family(
        "remove_value drop_value without",
        "LN",
        ["returns $a without the elements equal to $b", "removes every occurrence of $b from $a"],
        ["return [$v for $v in $a if $v != $b]"],
        [([1, 2, 1], 1)],
    ),
    family(
        "move_zeros zeros_to_end",
        "L",
        ["moves all zeros in $a to the end", "returns $a with its zeros moved to the end"],
        [
            """
            kept = [$v for $v in $a if $v != 0]
            return kept + [0] * (len($a) - len(kept))
            """
        ],
        [([0, 1, 0, 3],)],
    ),
    family(
        "missing_number find_missing",
        "L",
        ["returns the missing number in $a, which holds 0 to n without one value"],
        [
            """
            expected = len($a) * (len($a) + 1) // 2
            return expected - sum($a)
            """
        ],
        [([3, 0, 1],)],
        held_out=True,
    ),
    family(
        "majority majority_element",
        "L",
        ["returns the majority element of $a", "finds the element that occurs more than half of the time in $a"],
        [
            """
            count = 0
            candidate = None
            for $v in $a:
                if count == 0:
                    candidate = $v
                count += 1 if $v == candidate else -1
            return candidate
            """
        ],
        [([2, 2, 1, 2],)],
    ),
    family(
        "pairs_with_diff count_pairs_diff",
        "LN",
        ["returns the number of pairs in $a whose difference is $b"],
        [
            """
            count = 0
            for i in range(len($a)):
                for j in range(i + 1, len($a)):
                    if abs($a[i] - $a[j]) == $b:
                        count += 1
            return count
            """
        ],
        [([1, 2, 3, 4], 1)],
        held_out=True,
    ),
)
