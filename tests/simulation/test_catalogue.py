from __future__ import annotations

import pytest

from autotune.errors import UserError
from autotune.simulation.catalogue import SURFACES, open_surface


@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_is_called_as_its_entry_and_its_study(name):
    surface = open_surface(name)

    assert surface.name == surface.settings.name == name
    assert surface.summary
    for values in (surface.settings.baseline, *surface.settings.try_):
        assert surface.find_obstacle(surface.space.resolve(values)) is None
    assert {surface.space.arm(each) for each in surface.space.configurations} == {"plain", "chain", "tree"}


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'roomy'"):
        open_surface("romy")
