"""How far down a draft tree does the target agree? Lossless by default; two opt-in thresholds accept more."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def accepted_path(parents: Sequence[int], tokens: Sequence[int], choices: Sequence[int]) -> list[int]:
    """Follow the target's own choices from the root while they are children in the tree.

    Args:
        parents: parent slot of slots 1, 2 ...
        tokens: tokens of slots 1, 2 ...; siblings differ.
        choices: what the target chooses after slots 0, 1, 2 ...

    Returns:
        Slots of the accepted path, the root first; the choice at its last slot is the bonus token.

    >>> accepted_path([0, 0, 2], [7, 8, 9], [8, 1, 9, 5])
    [0, 2, 3]
    """
    children = {(parent, token): slot for slot, (parent, token) in enumerate(zip(parents, tokens, strict=True), 1)}
    path = [0]
    slot: int | None = 0
    while (slot := children.get((path[-1], choices[path[-1]]))) is not None:
        path.append(slot)
    return path


def lossy_path(
    parents: Sequence[int],
    child_probabilities: Sequence[float],
    coin: Callable[[int], float],
    threshold_single: float,
    threshold_acc: float,
) -> tuple[list[int], bool]:
    """Accept drafted tokens that are likely enough, as SGLang's target-only tree sampling does.

    At each slot one coin is thrown; its children are tried best first. A child is taken when its target probability
    exceeds ``threshold_single``, or when the coin is at most the probability of the children tried so far divided by
    ``threshold_acc``. With both at 1.0 the result follows the target's distribution.

    Args:
        parents: parent slot of slots 1, 2 ...
        child_probabilities: target probability of the token of slots 1, 2 ... after their parents.
        coin: uniform number of a depth, 0 at the root.
        threshold_single: 1.0 never accepts by this rule.
        threshold_acc: 1.0 does not enlarge the accept probability.

    Returns:
        The accepted slots, the root first, and whether children of the last slot were refused (the bonus token then
        comes from the target's distribution without them).
    """
    path = [0]
    while True:
        tried = 0.0
        toss = coin(len(path) - 1)
        children = [slot for slot, parent in enumerate(parents, 1) if parent == path[-1]]
        for slot in children:
            probability = child_probabilities[slot - 1]
            tried += probability
            if probability > threshold_single or toss <= tried / threshold_acc:
                path.append(slot)
                break
        else:
            return path, bool(children)
