"""Families about dictionaries, matrices and graphs.

One entry a family and nothing else; the file is long because it is data.
"""

from __future__ import annotations

from autotune.ddtree.corpus.family import Family, family

FAMILIES: tuple[Family, ...] = (
    family(
        "transpose transpose_matrix",
        "M",
        ["returns the transpose of $a", "transposes the matrix $a"],
        ["return [list(row) for row in zip(*$a)]", "return [[row[$i] for row in $a] for $i in range(len($a[0]))]"],
        [([[1, 2], [3, 4]],), ([[1, 2, 3]],)],
    ),
    family(
        "matmul multiply_matrices mat_mul",
        "MM",
        ["returns the matrix product of $a and $b", "multiplies the matrices $a and $b"],
        [
            """
            $r = []
            for row in $a:
                new_row = []
                for col in zip(*$b):
                    new_row.append(sum(p * q for p, q in zip(row, col)))
                $r.append(new_row)
            return $r
            """
        ],
        [([[1, 2], [3, 4]], [[5, 6], [7, 8]])],
    ),
    family(
        "invert_dict swap_keys invert",
        "D",
        ["returns a dictionary with the keys and values of $a swapped", "inverts the dictionary $a"],
        ["return {v: k for k, v in $a.items()}"],
        [({"a": 1, "b": 2},)],
    ),
    family(
        "merge_dicts combine_dicts",
        "DD",
        [
            "merges the dictionaries $a and $b, with $b taking precedence",
            "returns a new dictionary with the entries of $a updated by $b",
        ],
        [
            """
            $r = dict($a)
            $r.update($b)
            return $r
            """
        ],
        [({"a": 1}, {"a": 2, "b": 3})],
    ),
    family(
        "sort_by_value sorted_items",
        "D",
        ["returns the items of $a sorted by value", "sorts the entries of the dictionary $a by their values"],
        ["return sorted($a.items(), key=lambda kv: kv[1])"],
        [({"a": 2, "b": 1},)],
    ),
    family(
        "key_of_max max_key",
        "D",
        ["returns the key of $a with the largest value", "finds the key whose value is the largest in $a"],
        ["return max($a, key=$a.get)"],
        [({"a": 2, "b": 5},)],
        held_out=True,
    ),
    family(
        "diagonal main_diagonal",
        "M",
        ["returns the main diagonal of $a"],
        ["return [$a[i][i] for i in range(len($a))]"],
        [([[1, 2], [3, 4]],)],
    ),
    family(
        "trace matrix_trace",
        "M",
        ["returns the trace of the square matrix $a"],
        ["return sum($a[i][i] for i in range(len($a)))"],
        [([[1, 2], [3, 4]],)],
    ),
    family(
        "row_sums sum_rows",
        "M",
        ["returns the sum of each row of $a"],
        ["return [sum(row) for row in $a]"],
        [([[1, 2], [3, 4]],)],
    ),
    family(
        "column_sums sum_columns",
        "M",
        ["returns the sum of each column of $a"],
        ["return [sum(col) for col in zip(*$a)]"],
        [([[1, 2], [3, 4]],)],
        held_out=True,
    ),
    family(
        "rotate_matrix rotate_grid",
        "M",
        ["rotates $a by 90 degrees clockwise"],
        ["return [list(row) for row in zip(*$a[::-1])]"],
        [([[1, 2], [3, 4]],)],
    ),
    family(
        "spiral spiral_order",
        "M",
        ["returns the elements of $a in spiral order"],
        [
            """
            $r = []
            while $a:
                $r += $a[0]
                $a = [list(row) for row in zip(*$a[1:])][::-1]
            return $r
            """
        ],
        [([[1, 2, 3], [4, 5, 6], [7, 8, 9]],)],
        held_out=True,
    ),
    family(
        "bfs bfs_order",
        "DS",
        [
            "returns the breadth-first order of the graph $a from the node $b",
            "visits the graph $a breadth first, starting at $b",
        ],
        [
            """
            order = []
            queue = [$b]
            seen = {$b}
            while queue:
                node = queue.pop(0)
                order.append(node)
                for nxt in $a.get(node, []):
                    if nxt not in seen:
                        seen.add(nxt)
                        queue.append(nxt)
            return order
            """
        ],
        [({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, "a")],
    ),
    family(
        "dfs dfs_order",
        "DS",
        [
            "returns the depth-first order of the graph $a from the node $b",
            "visits the graph $a depth first, starting at $b",
        ],
        [
            """
            order = []
            stack = [$b]
            while stack:
                node = stack.pop()
                if node in order:
                    continue
                order.append(node)
                for nxt in reversed($a.get(node, [])):
                    stack.append(nxt)
            return order
            """
        ],
        [({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, "a")],
    ),
)
