from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import HostBusyError, UserError
from autotune.simulation.night_score import NightKey, NightScore, ScoreFile
from autotune.simulation.regret import Standing

KEY = NightKey("random", "roomy", "abc", 1, 20)


def standing(counted: int, boots: int, regret: float = 0.1) -> Standing:
    return Standing(
        counted, boots, 100.0 * boots, "budget=1", regret, breaks_rule=False, hypervolume_regrets=(0.2, 0.3)
    )


SCORE = NightScore(KEY, (standing(0, 1), standing(1, 2), standing(2, 4)), "2 of 2 trials are done", 0, 0, 0, 0, 2, 0.01)


def test_a_night_is_read_back_as_it_was_written(tmp_path: Path):
    path = tmp_path / "folder" / "scores.jsonl"
    with ScoreFile(path, NightScore) as file:
        file.append(SCORE)

    with ScoreFile(path, NightScore) as file:
        assert file.scores == {KEY: SCORE}


def test_half_a_line_of_a_killed_campaign_is_cut_off_and_its_night_played_again(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    other = replace(SCORE, key=replace(KEY, seed=2))
    with ScoreFile(path, NightScore) as file:
        file.append(SCORE)
        file.append(other)
    path.write_bytes(path.read_bytes()[:-20])

    with ScoreFile(path, NightScore) as file:
        assert set(file.scores) == {KEY}
        file.append(other)

    with ScoreFile(path, NightScore) as file:
        assert set(file.scores) == {KEY, other.key}


def test_a_line_that_is_no_night_is_named(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    path.write_text('{"key": 1}\n', encoding="utf-8")

    with pytest.raises(UserError, match="line 1"), ScoreFile(path, NightScore):
        pass
    assert path.read_text(encoding="utf-8") == '{"key": 1}\n'


def test_two_campaigns_never_write_one_file(tmp_path: Path):
    path = tmp_path / "scores.jsonl"
    with ScoreFile(path, NightScore), pytest.raises(HostBusyError), ScoreFile(path, NightScore):
        pass
    with ScoreFile(path, NightScore):
        pass


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(UserError, match="cannot be written"), ScoreFile(tmp_path / "file" / "scores.jsonl", NightScore):
        pass


def test_a_night_that_ended_early_stands_as_it_ended():
    assert SCORE.after(1).counted == 1
    assert SCORE.after(40).counted == 2


def test_after_so_many_boots_the_last_standing_that_took_no_more_counts():
    assert SCORE.after_boots(3).counted == 1
    assert SCORE.after_boots(4).counted == 2
    assert SCORE.after_boots(0).counted == 0
