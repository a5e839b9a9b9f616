from __future__ import annotations

import copy
import random

import pytest

from autotune.ddtree.corpus import families
from autotune.ddtree.corpus.catalogue import held_out_families, trained_families
from autotune.ddtree.corpus.family import Family, instantiate, results
from autotune.ddtree.corpus.patterns import HELD_OUT
from autotune.ddtree.corpus.wordings import WORDINGS


def names(found: tuple[Family, ...]) -> set[str]:
    return {family.name for family in found}


def test_there_are_more_than_250_families_and_each_has_its_own_name():
    assert len(families()) > 250
    assert len(names(families())) == len(families())


def test_at_least_twelve_families_are_held_out_and_the_rest_are_trained():
    assert len(held_out_families()) >= 12
    assert names(held_out_families()) | names(trained_families()) == names(families())
    assert not names(held_out_families()) & names(trained_families())


def test_every_name_in_the_lists_of_held_out_families_and_wordings_exists():
    assert names(held_out_families()) >= HELD_OUT
    assert names(families()) >= WORDINGS.keys()


def test_every_family_has_a_topic_examples_and_a_parameter_for_each_slot_it_uses():
    for family in families():
        assert family.topic, family.name
        assert family.examples, family.name
        unused = "abcd"[len(family.parameters) :]
        for text in family.descriptions:
            assert not any(f"${slot}" in text for slot in unused), (family.name, text)
        for arguments in family.examples:
            assert len(family.parameters) == len(arguments), family.name


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_every_body_under_any_names_returns_the_same(family: Family):
    expected = results(family)
    rng = random.Random(family.name)  # noqa: S311 - reproducible text, no secret

    for body in range(len(family.bodies)):
        assert repr(expected) == repr(results(family, body))
        for _ in range(4):
            task = instantiate(rng, family, body=body)
            scope: dict[str, object] = {}
            exec(task.code("What it does"), scope)  # noqa: S102 - the package's own source
            function = scope[task.name]
            assert callable(function)
            assert repr(expected) == repr(tuple(function(*copy.deepcopy(a)) for a in family.examples)), task.code()
