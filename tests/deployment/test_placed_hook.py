"""The hook on a host, as far as it can be seen without a service: files, rights, the log in parts, and nothing left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.deployment import placed_hook
from autotune.deployment.hook_fit import find_hook_folder
from autotune.deployment.host import CommandOutput
from autotune.deployment.lease import Lease
from autotune.deployment.local_host import LocalHost
from autotune.deployment.placed_hook import PlacedHook, find_place
from autotune.draft_hook import FILE, KEPT_FREE_BYTES, LIMIT_BYTES
from autotune.errors import HostError, MeasurementError, UnitUnsupportedError
from autotune.servers.base import DraftLogPlace, LaunchSpec, load_hook
from tests.deployment.scripted_host import ScriptedHost
from tests.deployment.units import make_unit

UNIT = make_unit("ExecStart=/opt/server\nEnvironment=PYTHONPATH=/opt/own")
MIB = 2**20


class Unfenced(Lease):
    """A lease that is always ours, of a folder of the test."""

    def __init__(self) -> None:
        super().__init__(LocalHost(), "x.service", lease_s=60, study="x")

    def run_as_root(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 90.0, is_idempotent: bool = False
    ) -> CommandOutput:
        return LocalHost().run(command, stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "lease" / "draft-hook"
    folder.parent.mkdir()
    monkeypatch.setattr(placed_hook, "find_hook_folder", lambda _unit: str(folder))
    monkeypatch.setattr(placed_hook, "find_environment_file", lambda _unit: f"{folder}/environment")
    return folder


def hook() -> PlacedHook:
    return PlacedHook(LocalHost(), Unfenced(), "x.service")


def launch(folder: Path) -> LaunchSpec:
    place = DraftLogPlace(f"{folder}/drafts.jsonl", str(folder), "/opt/own", 1000)
    return load_hook(LaunchSpec((), {}), place, 4)


def answer(free_bytes: int = 2**40, *, has_user: bool = True, sandbox: bytes = b"") -> ScriptedHost:
    def run(command: Sequence[str], _stdin: bytes) -> CommandOutput:
        if command[0] == "systemctl":
            return CommandOutput(0, sandbox, b"")
        if command[0] == "id":
            return CommandOutput(0 if has_user else 1, b"1000\n", b"")
        assert command[:2] == ("stat", "-f")
        return CommandOutput(0, f"{free_bytes // 4096} 4096\n".encode(), b"")

    return ScriptedHost(run)


def test_all_of_it_is_placed_and_goes_again(folder: Path):
    hook().place(launch(folder), str(os.getuid()))

    assert sorted(path.name for path in folder.iterdir()) == ["drafts.jsonl", "environment", FILE.name]
    assert (folder / FILE.name).read_bytes() == FILE.read_bytes()
    assert (folder / "environment").read_text().splitlines()[0] == f'PYTHONPATH="{folder}:/opt/own"'
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"draft-hook": 0o755, FILE.name: 0o644, "environment": 0o600, "drafts.jsonl": 0o640}
    assert (folder / "drafts.jsonl").read_bytes() == b""
    (folder / "__pycache__").mkdir()  # a server that is root leaves it
    hook().remove()
    hook().remove()
    assert list(folder.parent.iterdir()) == []


def test_a_user_that_is_not_there_is_said(folder: Path):
    with pytest.raises(HostError, match=r"install .* failed"):
        hook().place(launch(folder), "no-such-user")


def test_a_log_is_fetched_in_parts_as_it_grows(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placed_hook, "_CHUNK_BYTES", 4)
    hook().place(launch(folder), str(os.getuid()))
    mine, log = tmp_path / "mine", folder / "drafts.jsonl"
    for text in ("", "abcd", "abcdefghijk", "abcdefghijklmnop"):
        log.write_text(text)
        hook().fetch(mine, 1000)

        assert mine.read_text() == text


@pytest.mark.parametrize("limit", [1, 7, 8, 16])
def test_no_more_than_the_limit_is_fetched(folder: Path, tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(placed_hook, "_CHUNK_BYTES", 4)
    hook().place(launch(folder), str(os.getuid()))
    (folder / "drafts.jsonl").write_bytes(b"0123456789abcdefxyz")
    for _ in range(2):
        hook().fetch(tmp_path / "mine", limit)

        assert (tmp_path / "mine").read_bytes() == b"0123456789abcdef"[:limit]


def test_a_log_that_is_gone_is_a_measurement_that_failed(folder: Path, tmp_path: Path):
    with pytest.raises(MeasurementError, match="No such file") as caught:
        hook().fetch(tmp_path / "mine", 1000)

    assert str(folder) in (caught.value.where or "")


@pytest.mark.parametrize(
    ("free", "limit"),
    [(2**40, LIMIT_BYTES), (KEPT_FREE_BYTES + 100 * MIB, 50 * MIB), (KEPT_FREE_BYTES + 32 * MIB, 16 * MIB)],
)
def test_the_limit_leaves_room_below_run(free: int, limit: int):
    place = find_place(answer(free), UNIT, None)

    folder = find_hook_folder("x.service")
    assert place == DraftLogPlace(f"{folder}/drafts.jsonl", folder, "/opt/own", limit)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (answer(KEPT_FREE_BYTES + 31 * MIB), "only 95 MiB are free below /run"),
        (answer(has_user=False), "knows no user root"),
        (answer(sandbox=b"DynamicUser=no\nProtectSystem=strict\n"), "may not write below /run"),
    ],
)
def test_a_host_where_it_does_not_fit_says_why(host: ScriptedHost, why: str):
    with pytest.raises(UnitUnsupportedError, match=why):
        find_place(host, UNIT, None)


def test_looking_changes_nothing():
    host = answer()
    find_place(host, UNIT, None)

    assert {command[:2] for command in host.commands} == {("systemctl", "show"), ("id", "-u"), ("stat", "-f")}
