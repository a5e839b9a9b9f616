"""Each row of a batch is sampled as if it were alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ddtree.request import GenerationRequest
from autotune.ddtree.sampling import probabilities

VOCABULARY = 400


def ask(temperature: float, top_p: float, top_k: int) -> GenerationRequest:
    return GenerationRequest("a", (1,), 1, temperature=temperature, top_p=top_p, top_k=top_k)


def random_logits(seed: int, vocabulary: int, spread: float) -> torch.Tensor:
    return torch.randn(1, 1, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


ROWS = st.tuples(
    st.builds(
        ask,
        st.sampled_from([0.5, 0.8, 1.0]),
        st.sampled_from([0.1, 0.5, 0.9, 0.9999999, 1.0]),
        st.sampled_from([-1, 1, 20, 127, 128, 129, 300, VOCABULARY]),
    ),
    st.integers(0, 50),
    st.sampled_from([0.01, 1.0, 3.0, 8.0]),
)


@settings(deadline=None, max_examples=150)
@given(rows=st.lists(ROWS, min_size=2, max_size=5))
def test_a_row_gets_what_it_gets_alone_whoever_its_neighbours_are(
    rows: list[tuple[GenerationRequest, int, float]],
) -> None:
    requests = [request for request, _, _ in rows]
    logits = torch.cat([random_logits(seed, VOCABULARY, spread) for _, seed, spread in rows])

    together = probabilities(logits, requests)

    for row, request in enumerate(requests):
        assert torch.equal(probabilities(logits[row : row + 1], [request])[0], together[row])


@pytest.mark.parametrize("neighbour", [ask(0.8, 0.9, -1), ask(0.8, 1.0, -1), ask(1.0, 0.9999999, -1)])
@pytest.mark.parametrize("spread", [0.0, 8.0])
def test_the_nucleus_is_a_share_of_the_top_k_next_to_any_neighbour(neighbour: GenerationRequest, spread: float) -> None:
    torch.manual_seed(0)
    logits = torch.cat([torch.randn(1, 1, 2048) * 2, random_logits(1, 2048, spread)])

    weights = probabilities(logits, [ask(0.8, 0.9, 20), neighbour])

    assert int((weights[0] > 0).sum()) == 9


def test_the_nucleus_of_a_large_top_k_is_a_share_of_all_of_it() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 2048) * 0.01
    logits[..., :100] += 3

    assert int((probabilities(logits, [ask(1.0, 0.5, 500)]) > 0).sum()) == 60
