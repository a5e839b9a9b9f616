from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.evaluation import memory_cgroup
from autotune.evaluation.memory_cgroup import MemoryCgroup, find_parents, remove_leftovers

MEBIBYTE = 1 << 20


def unified(root: Path) -> Path:
    (root / "cgroup.controllers").write_text("cpu memory pids\n")
    (root / "user.slice" / "a.scope").mkdir(parents=True)
    return root


def test_version_2_is_looked_for_in_our_group_beside_it_and_at_the_top(tmp_path):
    root = unified(tmp_path)

    found = list(find_parents("0::/user.slice/a.scope\n", root))

    assert found == [(root / "user.slice/a.scope", 2), (root / "user.slice", 2), (root, 2)]


def test_at_the_top_there_is_one_place(tmp_path):
    assert list(find_parents("0::/\n", unified(tmp_path))) == [(tmp_path, 2)]


def test_version_1_is_taken_where_its_memory_controller_is(tmp_path):
    membership = "5:cpu,cpuacct:/x\n4:memory:/job/7\n1:name=systemd:/\n0::/\n"

    assert list(find_parents(membership, tmp_path)) == [(tmp_path / "memory/job/7", 1), (tmp_path / "memory", 1)]


@pytest.mark.parametrize("membership", ["", "5:cpu:/x\n", "nonsense", "0::/\n"])
def test_no_controller_gives_no_place(tmp_path, membership):
    assert list(find_parents(membership, tmp_path)) == []


class FakeGroups:
    """A folder in which making a group puts its files there, as the kernel does."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *, files: tuple[str, ...]) -> None:
        self.root = unified(root)
        self.made: list[Path] = []
        self.written: dict[str, str] = {}
        original_mkdir, original_write, original_rmdir = Path.mkdir, Path.write_text, Path.rmdir

        def mkdir(path: Path, *args: object, **kwargs: object) -> None:
            original_mkdir(path)
            self.made.append(path)
            for name in files:
                original_write(path / name, "")

        def write_text(path: Path, text: str, **kwargs: object) -> int:
            if not path.exists():
                raise FileNotFoundError(path)
            self.written[path.name] = text
            return len(text)

        def rmdir(path: Path) -> None:
            for name in files:
                (path / name).unlink(missing_ok=True)
            original_rmdir(path)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "write_text", write_text)
        monkeypatch.setattr(Path, "rmdir", rmdir)
        monkeypatch.setattr(memory_cgroup, "find_parents", lambda _text: find_parents("0::/\n", self.root))


def test_a_group_of_version_2_bounds_memory_swap_and_processes(tmp_path, monkeypatch):
    groups = FakeGroups(
        tmp_path, monkeypatch, files=("memory.max", "memory.swap.max", "pids.max", "cgroup.procs", "cgroup.kill")
    )

    with MemoryCgroup(100 * MEBIBYTE) as cgroup:
        assert cgroup.is_there
        assert cgroup.add(123)

    assert groups.written == {
        "memory.max": str(164 * MEBIBYTE),
        "memory.swap.max": "0",
        "pids.max": "64",
        "cgroup.procs": "123",
        "cgroup.kill": "1",
    }
    assert not [path for path in groups.made if path.exists()]


def test_a_group_without_the_memory_controller_is_none(tmp_path, monkeypatch):
    groups = FakeGroups(tmp_path, monkeypatch, files=("cgroup.procs",))

    with MemoryCgroup(100 * MEBIBYTE) as cgroup:
        assert not cgroup.is_there
        assert not cgroup.add(123)

    assert groups.made
    assert not [path for path in groups.made if path.exists()]


def test_where_no_folder_may_be_made_there_is_no_group(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_cgroup, "find_parents", lambda _text: iter([(tmp_path / "missing" / "deeper", 2)]))

    with MemoryCgroup(MEBIBYTE) as cgroup:
        assert not cgroup.is_there


def test_groups_of_dead_processes_are_removed_and_those_of_living_ones_kept(tmp_path, monkeypatch):
    root = unified(tmp_path)
    dead, alive, other = (
        root / name for name in ("autotune-sandbox-4194999-aa", f"autotune-sandbox-{os.getpid()}-bb", "theirs")
    )
    for folder in (dead, alive, other):
        folder.mkdir()
    monkeypatch.setattr(memory_cgroup, "find_parents", lambda _text: find_parents("0::/\n", root))

    remove_leftovers()

    assert [folder.exists() for folder in (dead, alive, other)] == [False, True, True]
