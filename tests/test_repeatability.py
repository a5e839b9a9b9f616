"""What the campaign that boots one configuration ten times makes of its boots; the boots themselves take minutes."""

from __future__ import annotations

import math
from dataclasses import replace

from autotune.packaged import find_packaged
from autotune.trial import BootCondition, Figure, TrialKind, TrialRecord
from tests.benchmarks.repeatability import PORT, ROUNDS, make_settings, only_cells, render_table
from tests.records import make_cell, make_trial
from tests.records import make_settings as small_settings

SETTINGS = small_settings()


def boot(number: int, c1: float, canary: float = 1000.0) -> TrialRecord:
    """A boot whose two rounds at C=1 lie 2 % apart."""
    prompts = {f"p{index}": math.log(c1) + index for index in range(6)}
    cells = (
        replace(make_cell(32, 400.0, prompts=prompts), round_log_speeds=(0.0, 0.0)),
        replace(make_cell(1, c1, prompts=prompts), round_log_speeds=(0.0, 0.02)),
    )
    condition = BootCondition((Figure(canary, 6), Figure(canary, 6)))
    return replace(make_trial(number, c1, kind=TrialKind.BASELINE), cells=cells, condition=condition)


def test_the_table_tells_noise_inside_boots_from_that_between_them():
    boots = [boot(number, c1) for number, c1 in enumerate((95.0, 100.0, 105.0))]

    lines = list(render_table([*boots, make_trial(9)], SETTINGS))

    row = next(line for line in lines if line.startswith("| ctx128-c1 "))
    # Logs 0.05 apart: 5.0 %; rounds 0.02 apart: 1.4 % each, 1.0 % for the mean of two.
    assert "| 100 | 5.0% (2.6% to 31.5%) | 1.0% (0.6% to 3.7%) | 4.9% | 28.2% |" in row
    assert next(line for line in lines if line.startswith("| ctx128-c32 ")).startswith("| ctx128-c32 | 400 | 0.0% ")
    assert "| canary, prompt tokens/s | 1000 | 0.0% (0.0% to 0.0%) | | | |" in lines
    assert "Each boot against the others: 6 of 6 intervals of the gain hold 0, which is the truth." in lines
    assert lines[-1] == "Boots that drifted: 0 of 3"


def test_a_boot_that_drifted_is_in_the_table_and_named_below_it():
    boots = [boot(number, 100.0, canary) for number, canary in enumerate((1000, 1000, 1000, 1000, 700))]

    lines = list(render_table(boots, SETTINGS))

    assert lines[-1].startswith("Boots that drifted: 1 of 5; trial 4: its canary")


def test_one_boot_has_no_spread():
    assert "| ctx128-c1 | | | | | |" in list(render_table([boot(0, 100.0)], SETTINGS))


def test_a_row_rests_on_its_own_cell():
    narrowed = only_cells([boot(0, 100.0)], "ctx128-c32")

    assert [cell.cell.concurrency for cell in narrowed[0].cells] == [32]
    assert narrowed[0].objectives.tokens_per_s_c1 == Figure(400.0, 2)


def test_the_campaign_measures_the_embedded_study_without_coding_problems():
    path = find_packaged("studies", "embedded.toml")
    assert path is not None

    settings = make_settings(path)

    assert (settings.name, settings.server.port, settings.benchmark.max_rounds) == ("repeatability", PORT, ROUNDS)
    assert not settings.evaluation.enabled
    assert settings.try_ == ()
