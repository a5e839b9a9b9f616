"""Studies that nobody wishes for: the sampler still proposes something, and says nothing that is not so."""

from __future__ import annotations

from autotune.sampling.greybox.encoding import Encoding
from autotune.search_space import SearchSpace
from autotune.search_space_file import SearchSpaceFile


def make_space(**parameters: dict[str, object]) -> SearchSpace:
    """A space of the given parameters, each with a flag of its own."""
    tables = {name: {"flag": f"--{name}", **table} for name, table in parameters.items()}
    return SearchSpace(SearchSpaceFile.model_validate({"name": "odd", "parameters": tables}))


def whole_number(low: int, high: int, default: int | None = None, step: int = 1) -> dict[str, object]:
    return {"kind": "int", "low": low, "high": high, "step": step, "default": low if default is None else default}


def choice(*choices: int | str) -> dict[str, object]:
    return {"kind": "choice", "choices": list(choices), "default": choices[0]}


def test_a_block_or_budget_that_stands_for_off_or_automatic_is_no_number():
    encoding = Encoding(make_space(budget=whole_number(-1, 3), block=choice(0, 8, 16)))

    assert encoding.budget is None
    assert encoding.block is None
    assert not encoding.is_plain.any()
