"""What every storage must do; a server database joins by naming its URL in ``STORAGES``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

from autotune.errors import SettingsError
from autotune.storage import TOLD, TrialStore, sqlite_url
from autotune.trial import TrialState

STORAGES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: sqlite_url(folder / "study.db"),
}

NAMES = ("c1", "c32", "pass")
DISTRIBUTIONS = {"budget": IntDistribution(0, 64), "window": CategoricalDistribution([32, None])}


@pytest.fixture(params=sorted(STORAGES))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return STORAGES[request.param](tmp_path)


def reopen(url: str) -> TrialStore:
    store = TrialStore.open(url, "study", objectives=None)
    assert store is not None
    return store


@pytest.fixture
def store(url: str) -> Iterator[TrialStore]:
    store = TrialStore.open(url, "study", objectives=NAMES)
    assert store is not None
    yield store
    store.close()


def add(store: TrialStore, **attributes: Any) -> int:
    return store.add({"budget": 3, "window": None}, DISTRIBUTIONS, {"state": "suggested", **attributes})


def test_numbers_count_up_from_zero(store: TrialStore):
    assert [add(store) for _ in range(3)] == [0, 1, 2]


def test_what_was_written_is_seen_at_once_by_another_reader(store: TrialStore, url: str):
    number = add(store, kind="search")
    store.write_trial(number, "cell:0000", {"a": [1, 2.5, None, "ü"]})
    store.write("settings", {"x": 1})
    reader = reopen(url)

    assert reader.trials() == [
        (0, True, {"state": "suggested", "kind": "search", "cell:0000": {"a": [1, 2.5, None, "ü"]}})
    ]
    assert reader.read("settings") == {"x": 1}
    assert reader.read("nothing") is None
    store.write_trial(number, "state", "measuring")
    assert reader.attributes(number)["state"] == "measuring"
    reader.close()


@pytest.mark.parametrize("state", [state for state in TrialState if state.is_final])
def test_a_finished_trial_keeps_its_attributes_and_takes_no_more(store: TrialStore, state: TrialState):
    number = add(store)
    values = [1.0, 2.0, 0.5] if state is TrialState.COMPLETE else None
    store.finish(number, state, values, {"launch": -1.0})

    assert store.trials()[0][1] is False
    with pytest.raises(RuntimeError):
        store.write_trial(number, "late", 1)
    with pytest.raises(RuntimeError):
        store.finish(number, state, values)


def test_every_state_of_ours_has_one_of_optunas():
    assert set(TOLD) == set(TrialState)
    assert all(TOLD[state].is_finished() == state.is_final for state in TrialState)


def test_an_infeasible_trial_is_told_with_its_values_when_it_has_them(store: TrialStore, url: str):
    store.finish(add(store), TrialState.INFEASIBLE, [1.0, 2.0, 0.1], {"pass_guard": 0.04})
    store.finish(add(store), TrialState.INFEASIBLE, None, {"launch": 1.0})
    reader = reopen(url)
    study = optuna.load_study(study_name="study", storage=reader._storage)

    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    assert study.trials[0].constraints == {"pass_guard": 0.04}
    assert study.best_trials == []
    reader.close()


def test_large_attributes_survive(store: TrialStore):
    number = add(store)
    lines = [f"line {index} " + "x" * 200 for index in range(5000)]
    store.write_trial(number, "log", lines)

    assert store.attributes(number)["log"] == lines


def test_a_reader_and_a_writer_do_not_disturb_each_other(store: TrialStore, url: str):
    number = add(store)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            reader = reopen(url)
            for _ in range(20):
                reader.trials()
            reader.close()
        except BaseException as error:  # noqa: BLE001  # handed to the test
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for index in range(20):
        store.write_trial(number, f"key{index}", index)
    thread.join()

    assert errors == []
    assert len(store.attributes(number)) == 21


def test_opening_again_finds_the_study_and_another_name_makes_another(store: TrialStore, url: str):
    add(store)
    again = TrialStore.open(url, "study", objectives=NAMES)
    other = TrialStore.open(url, "other", objectives=NAMES)
    assert again is not None
    assert other is not None

    assert len(again.trials()) == 1
    assert other.trials() == []
    assert TrialStore.open(url, "third", objectives=None) is None
    again.close()
    other.close()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "sqlite:////nowhere/at/all/study.db",
        "nodriver://user:secret@host/db",
        "postgresql+none://u:secret@h/d",
    ],
)
def test_a_storage_that_cannot_be_opened_says_so_without_the_password(url: str):
    with pytest.raises(SettingsError) as caught:
        TrialStore.open(url, "study", objectives=NAMES)

    assert "cannot be opened" in str(caught.value)
    assert "secret" not in str(caught.value)
