from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from autotune.sampling.base import History
from autotune.simulation.withholding import Information, WithheldSampler
from autotune.trial import TrialKind, TrialState
from tests.records import make_boot, make_settings, make_trial
from tests.simulation.table_surface import TableSurface

SPACE = TableSurface({1: (1.0, 1.0, 1.0)}).space
BASELINE = make_trial(0, configuration={"budget": 1}, kind=TrialKind.BASELINE)
COMPLETE = replace(make_trial(1, configuration={"budget": 2}), boot=replace(make_boot(), free_memory_gb=3.0))
PRUNED = make_trial(2, configuration={"budget": 0}, state=TrialState.PRUNED)
INFEASIBLE = make_trial(3, None, None, configuration={"budget": 2}, state=TrialState.INFEASIBLE)


class Recorder:
    def propose(self, history, _space, pending, _rng):
        self.history, self.pending = history, pending
        return {"budget": 1}


def see(withheld: Information) -> Any:
    recorder = Recorder()
    history = History(make_settings(), (BASELINE, COMPLETE, PRUNED, INFEASIBLE), BASELINE)
    WithheldSampler(recorder, withheld).propose(history, SPACE, [{"budget": 1}], random.Random(1))  # noqa: S311
    return recorder


def test_without_accept_lengths_every_cell_keeps_its_speed_only():
    seen = see(Information.ACCEPT_LENGTH).history

    cells = [cell for trial in (*seen.trials, seen.baseline) for cell in trial.cells]
    assert {cell.accept_length for cell in cells} == {None}
    assert [cell.decode_tokens_per_s for cell in seen.trials[1].cells] == [
        cell.decode_tokens_per_s for cell in COMPLETE.cells
    ]
    assert all(trial.evaluation is None or trial.evaluation.accept_length is None for trial in seen.trials)


def test_without_cells_of_pruned_trials_others_keep_theirs():
    seen = see(Information.PRUNED_CELLS).history

    assert [len(trial.cells) for trial in seen.trials] == [2, 2, 0, 0]


def test_an_infeasible_trial_that_is_not_seen_is_pending_so_that_it_is_not_proposed_for_ever():
    seen = see(Information.INFEASIBILITY)

    assert [trial.number for trial in seen.history.trials] == [0, 1, 2]
    assert seen.pending == [{"budget": 1}, {"budget": 2}]


def test_without_histograms_every_cell_keeps_the_rest():
    counted = replace(COMPLETE, cells=tuple(replace(cell, accepted_histogram=(1, 2)) for cell in COMPLETE.cells))
    recorder = Recorder()
    history = History(make_settings(), (BASELINE, counted), BASELINE)
    WithheldSampler(recorder, Information.HISTOGRAMS).propose(history, SPACE, [], random.Random(1))  # noqa: S311

    assert recorder.history.trials[1] == COMPLETE


def test_without_free_memory_a_boot_keeps_the_rest():
    seen = see(Information.FREE_MEMORY).history.trials[1]

    assert COMPLETE.boot is not None
    assert seen.boot == replace(COMPLETE.boot, free_memory_gb=None)
    assert seen.cells == COMPLETE.cells
