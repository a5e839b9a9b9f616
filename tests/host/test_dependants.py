"""Other units of a real host that go down with the service: whoever puts the service back brings them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.applied import finished_study, run_autotune
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.lab import Lab
from tests.host.service import UNIT, start_stand_in
from tests.host.systemd_study import TRIAL, open_systemd

SLEEPS = "[Service]\nExecStart=/bin/sleep infinity\n"
DEPENDANTS = {
    "router": f"[Unit]\nRequires={UNIT}\nAfter={UNIT}\n{SLEEPS}",
    "bound": f"[Unit]\nBindsTo={UNIT}\nAfter={UNIT}\n{SLEEPS}",
    "probe": f"[Unit]\nPartOf=router.service\n{SLEEPS}",
    "off": f"[Unit]\nRequires={UNIT}\n{SLEEPS}",
}
AS_BEFORE = ["active", "active", "active", "inactive"]


@pytest.fixture
def served(host: Container) -> Container:
    start_stand_in(host)
    for name, text in DEPENDANTS.items():
        host.put(f"/etc/systemd/system/{name}.service", text)
    host.run(["systemctl", "daemon-reload"])
    host.run(["systemctl", "start", "router", "bound", "probe"])
    return host


def states(host: Container) -> list[str]:
    return host.shell(f"systemctl is-active {' '.join(DEPENDANTS)}", check=False).split()


def test_a_night_stops_them_and_its_end_starts_them(served: Container, tmp_path: Path):
    with open_systemd(InsideHost(served), tmp_path) as opened:
        opened.stop()
        opened.start(TRIAL, tmp_path / "log.txt")
        during = states(served)
        opened.restore()

    assert during == ["inactive"] * 4
    assert states(served) == AS_BEFORE
    assert opened.findings == ()


def test_the_host_starts_them_when_it_puts_the_service_back_by_itself(served: Container, tmp_path: Path):
    with open_systemd(InsideHost(served), tmp_path) as opened:
        opened.stop()
        said = served.shell(f"sh /run/autotune/{UNIT}/restore.sh /run/autotune/{UNIT}")

    assert "starting router.service, which ran before" in said
    assert states(served) == AS_BEFORE


def test_an_apply_that_fails_starts_them(lab: Lab, served: Container, tmp_path: Path):
    """The new server refuses its flags, so the units bound to it have failed with it."""
    served.put("/etc/stand-in-server.json", '[{"fault": "crash", "budgets": [8]}]')
    failed = run_autotune(finished_study(tmp_path, lab, served), "export", "sample", "--apply", "--yes")

    assert failed.exit_code == 4, failed.output
    assert states(served) == AS_BEFORE
