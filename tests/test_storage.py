from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
import sqlalchemy

from autotune import storage
from autotune.errors import HostError
from autotune.storage import TrialStore, sqlite_url
from autotune.trial import TrialState


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of one study without trials: making its tables takes long."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    opened = TrialStore.open(sqlite_url(path), "one", objectives=["speed"])
    assert opened is not None
    opened.close()
    return path.read_bytes()


@pytest.fixture
def store(empty: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrialStore]:
    (tmp_path / "study.db").write_bytes(empty)
    monkeypatch.setattr(storage, "SQLITE_TIMEOUT_S", 0.05)
    opened = TrialStore.open(sqlite_url(tmp_path / "study.db"), "one", objectives=["speed"])
    assert opened is not None
    opened.write("a", 1)
    opened.add({"budget": 1}, {"budget": optuna.distributions.IntDistribution(0, 4)}, {"state": "suggested"})
    yield opened
    opened.close()


def run_at_checkout(store: TrialStore, statement: str) -> None:
    """Make SQLite itself refuse: with this statement in every connection from now on."""

    def run(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(statement)

    sqlalchemy.event.listen(store._storage.engine, "checkout", run)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.write("big", "x" * 1900 * 100),
        lambda store: store.write_trial(0, "big", "x" * 1900 * 100),
    ],
    ids=["study", "trial"],
)
def test_a_full_disk_is_the_hosts_fault(store: TrialStore, write: Callable[[TrialStore], None], tmp_path: Path):
    run_at_checkout(store, "PRAGMA max_page_count=1")

    with pytest.raises(HostError, match="the disk is full") as failure:
        write(store)

    assert failure.value.where == str(tmp_path / "study.db")
    assert failure.value.__cause__ is not None
    assert store.read("a") == 1


def test_a_database_that_cannot_be_written_is_the_hosts_fault(store: TrialStore):
    run_at_checkout(store, "PRAGMA query_only=1")

    with pytest.raises(HostError, match="read-only"):
        store.write("a", 2)


def test_a_database_that_is_removed_while_it_is_in_use_is_not_called_read_only(store: TrialStore, tmp_path: Path):
    (tmp_path / "study.db").unlink()

    with pytest.raises(HostError, match="was removed while it was in use") as failure:
        store.write("a", 2)

    assert "begins anew" in (failure.value.hint or "")


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.read("a"),
        lambda store: store.write("a", 2),
        lambda store: store.trials(),
        lambda store: store.attributes(0),
        lambda store: store.write_trial(0, "a", 2),
        lambda store: store.finish(0, TrialState.FAILED),
        lambda store: store.add({}, {}, {"state": "suggested"}),
    ],
    ids=["read", "write", "trials", "attributes", "write trial", "finish", "add"],
)
def test_a_locked_database_is_the_hosts_fault(store: TrialStore, use: Callable[[TrialStore], object], tmp_path: Path):
    with sqlite3.connect(tmp_path / "study.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HostError, match="locked"):
            use(store)
        other.execute("ROLLBACK")
    other.close()

    assert store.read("a") == 1
