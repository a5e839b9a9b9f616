from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from autotune.sampling.greybox.one_thread import one_thread


def threads() -> set[int]:
    """Of every library of linear algebra that is loaded."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_linear_algebra_has_one_thread_and_then_as_many_as_before():
    assert np.linalg.inv(np.eye(2)).shape == (2, 2)
    with threadpool_limits(limits=2):
        before = threads()

        @one_thread()
        def inside() -> set[int]:
            return threads()

        assert inside() == {1}
        assert threads() == before

        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert threads() == before
