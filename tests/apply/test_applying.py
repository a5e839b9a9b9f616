"""Apply and rollback against a service that fails where the test says: what was there is back, whatever failed."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autotune.apply import applying
from autotune.apply.applying import apply
from autotune.apply.archive import Archive
from autotune.apply.export_file import ExportFile
from autotune.apply.history import FileState, History
from autotune.apply.put_back import rollback
from autotune.apply.site import Site, Wanted
from autotune.clock import Clock, SystemClock
from autotune.deployment.unit import UnitState
from autotune.errors import (
    AutotuneError,
    HostError,
    LiveTrafficError,
    RestoreError,
    ServerCrashed,
    UnitStateError,
)
from autotune.search_space import Rendering
from tests.apply.plain_host import PlainHost

TEXT = b"[Service]\nExecStart=\nExecStart=/bin/new\n"
NOW = "2026-03-01T22:00:00+00:00"


@dataclass
class ScriptedService:
    """A service that fails at one step; what it does otherwise is written down."""

    host: PlainHost
    fails_at: str = ""
    error: BaseException = field(default_factory=lambda: ServerCrashed("the process ended"))
    times: int = 1
    is_up: bool = True
    users: int = 0
    unit: str = "x.service"
    url: str = "http://127.0.0.1:1"
    did: list[str] = field(default_factory=list)
    starts: int = 1
    clock: Clock = field(default_factory=SystemClock)
    dependants: tuple[str, ...] = ("router.service",)

    def read_state(self) -> UnitState:
        return UnitState("active" if self.is_up else "inactive", "", "success", 0, 7, None, f"{self.starts:x}", "")

    def look_for_users(self, *, drain: bool) -> str | None:
        if self.users and not drain:
            raise LiveTrafficError("requests of others")
        return None

    def try_fetch_reported(self) -> dict[str, int]:
        return {"budget": 16, "other": 1}

    def fetch_reported(self) -> dict[str, int]:
        self._do("fetch_reported")
        return {"budget": 16}

    def reload(self) -> None:
        self._do("reload")

    def find_dependants(self) -> tuple[str, ...]:
        found, self.dependants = self.dependants, ()  # whatever comes next stops them
        return found

    def start_dependants(self, names: tuple[str, ...]) -> None:
        self.dependants = names

    def restart(self) -> None:
        self.starts += 1
        self._do("restart")

    def replace(self) -> None:
        self.starts += 1
        self._do("replace")

    def start(self) -> None:
        self.is_up = True
        self.starts += 1
        self._do("start")

    def stop(self) -> None:
        self.is_up = False
        self._do("stop")

    def wait_until_serving(self) -> float:
        self._do("wait_until_serving")
        return 1.0

    def check_configuration(self, *_: object) -> None:
        self._do("check_configuration")

    def interruptible(self) -> Any:
        return nullcontext()

    def _do(self, step: str) -> None:
        self.did.append(step)
        if step == self.fails_at and self.times > 0:
            self.times -= 1
            raise self.error


@pytest.fixture
def no_systemd(monkeypatch):
    monkeypatch.setattr(applying, "find_complaints", lambda _host, _unit: frozenset())
    monkeypatch.setattr(applying, "_check_loaded", lambda _site, _wanted: None)


def a_site(service: ScriptedService) -> Site:
    host = service.host
    said: list[str] = []
    return Site(
        ExportFile(host, host.run_as_root, service.unit),
        Archive(host, host.run_as_root, service.unit),
        service,  # type: ignore[arg-type]  # scripted
        said.append,
    )


def a_wish(content: bytes = TEXT, mode: int = 0o644) -> Wanted:
    file = FileState(content, mode, os.geteuid(), os.getegid())
    return Wanted("kimi", 3, {"budget": 8}, Rendering((), {}), {}, frozenset({"budget"}), file)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.stat().st_mode),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


FAILURES = ["reload", "restart", "wait_until_serving", "check_configuration"]


@pytest.mark.usefixtures("no_systemd")
@pytest.mark.parametrize("fails_at", FAILURES)
@pytest.mark.parametrize("earlier", [None, (b"[Service]\n# mine\n", 0o600)])
def test_whatever_fails_the_files_are_as_before_and_the_old_server_serves(host, tmp_path, fails_at, earlier):
    """Case 70: exact bytes, modes, and the absence of files and folders."""
    service = ScriptedService(host, fails_at)
    site = a_site(service)
    if earlier is not None:
        site.file.put(FileState(earlier[0], earlier[1], os.geteuid(), os.getegid()))
    before = tree(tmp_path)

    with pytest.raises(ServerCrashed) as caught:
        apply(site, a_wish(), drain=False, start=False, now=NOW)

    assert "the state before is back" in str(caught.value.hint)
    assert tree(tmp_path) == before
    assert service.is_up
    assert service.did[-1] == ("reload" if fails_at == "reload" else "fetch_reported")
    assert ("replace" in service.did) == (fails_at != "reload")
    assert service.dependants == ("router.service",)


@pytest.mark.usefixtures("no_systemd")
def test_ctrl_c_puts_back_and_goes_on_as_itself(host, tmp_path):
    """Case 70 (a)."""
    service = ScriptedService(host, "wait_until_serving", KeyboardInterrupt())
    before = tree(tmp_path)

    with pytest.raises(KeyboardInterrupt):
        apply(a_site(service), a_wish(), drain=False, start=False, now=NOW)

    assert tree(tmp_path) == before


@pytest.mark.usefixtures("no_systemd")
def test_what_cannot_be_put_back_now_is_put_back_by_the_next_rollback(host, tmp_path):
    service = ScriptedService(host, "wait_until_serving", HostError("no"), times=2)
    site = a_site(service)
    before = tree(tmp_path)

    with pytest.raises(RestoreError, match="could not be put back yet") as caught:
        apply(site, a_wish(), drain=False, start=False, now=NOW)

    assert "autotune rollback kimi" in str(caught.value.hint)
    with pytest.raises(UnitStateError, match="never ended"):
        apply(site, a_wish(), drain=False, start=False, now=NOW)

    assert "serves, checked by a generation" in rollback(site, forced=False, drain=False)
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("no_systemd")
def test_several_applies_are_taken_back_one_by_one(host, tmp_path):
    site = a_site(ScriptedService(host))
    before = tree(tmp_path)
    apply(site, a_wish(b"first"), drain=False, start=False, now=NOW)
    apply(site, a_wish(b"second", 0o600), drain=False, start=False, now=NOW)

    rollback(site, forced=False, drain=False)
    assert site.file.read().content == b"first"
    assert site.service.find_dependants() == ("router.service",)
    rollback(site, forced=False, drain=False)
    assert tree(tmp_path) == before
    assert "nothing to take back" in rollback(site, forced=False, drain=False)


@pytest.mark.usefixtures("no_systemd")
def test_a_drop_in_that_somebody_changed_stays_unless_forced(host):
    site = a_site(ScriptedService(host))
    apply(site, a_wish(), drain=False, start=False, now=NOW)
    Path(site.file.path).write_bytes(b"theirs")

    with pytest.raises(UnitStateError, match="was changed since it was written"):
        rollback(site, forced=False, drain=False)
    assert site.file.read().content == b"theirs"
    assert site.archive.read().change is None

    assert "0001-theirs.conf" in rollback(site, forced=True, drain=False)
    assert site.file.read().content is None
    assert site.archive.read_saved("0001-theirs.conf") == b"theirs"


@pytest.mark.usefixtures("no_systemd")
def test_users_are_not_cut_off(host, tmp_path):
    service = ScriptedService(host, users=2)
    before = tree(tmp_path)

    with pytest.raises(LiveTrafficError):
        apply(a_site(service), a_wish(), drain=False, start=False, now=NOW)

    assert (tree(tmp_path), service.did) == (before, [])
    apply(a_site(service), a_wish(), drain=True, start=False, now=NOW)
    with pytest.raises(LiveTrafficError):
        rollback(a_site(service), forced=False, drain=False)


@pytest.mark.usefixtures("no_systemd")
def test_a_service_that_does_not_run_is_written_to_but_not_started(host):
    service = ScriptedService(host, is_up=False)
    site = a_site(service)
    apply(site, a_wish(), drain=False, start=False, now=NOW)

    assert (service.did, service.is_up) == (["reload"], False)
    assert "was not touched" in rollback(site, forced=False, drain=False)
    assert not service.is_up


@pytest.mark.usefixtures("no_systemd")
def test_a_service_that_was_started_for_an_apply_that_failed_is_stopped_again(host):
    service = ScriptedService(host, "check_configuration", is_up=False)

    with pytest.raises(ServerCrashed, match="ended"):
        apply(a_site(service), a_wish(), drain=False, start=True, now=NOW)

    assert not service.is_up


@pytest.mark.usefixtures("no_systemd")
def test_a_saved_file_that_is_gone_is_said_and_nothing_is_touched(host):
    site = a_site(ScriptedService(host))
    site.file.put(FileState(b"before", 0o644, os.geteuid(), os.getegid()))
    apply(site, a_wish(), drain=False, start=False, now=NOW)
    Path(f"{site.archive.folder}/0001-before.conf").write_bytes(b"other")

    with pytest.raises(AutotuneError, match="gone or was changed"):
        rollback(site, forced=False, drain=False)

    assert site.file.read().content == TEXT
    assert site.archive.read() != History()
