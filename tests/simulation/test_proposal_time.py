from __future__ import annotations

from autotune.simulation.compared_night import know
from autotune.simulation.method import Method
from autotune.simulation.proposal_time import draw_study, time_proposals
from autotune.simulation.regret import is_counted


class Remembering(Method):
    """Writes down how many trials it was shown, and takes a second for each."""

    now_s = 0.0
    seen: list[int] = []  # noqa: RUF012 - one for the test

    def make_sampler(self, *_asked):
        return self

    def propose(self, history, space, *_asked):
        counted = sum(map(is_counted, history.trials))
        self.seen.append(counted)
        type(self).now_s += counted
        return space.configurations[0]


def test_a_proposal_is_timed_after_so_many_trials_of_one_study():
    surface, _ = know("h200-small")
    study = draw_study(surface, 4)
    method = Remembering("remembering", "", None)

    times_s = time_proposals(method, surface, study, (2, 4), clock=lambda: Remembering.now_s)

    assert times_s == (2.0, 4.0)
    assert Remembering.seen == [2] * 3 + [4] * 3
