"""A lease on a real host: who gets it, who is fenced off, and when the host acts by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.deployment.lease import Lease
from autotune.deployment.lease_holder import find_timer, is_restoring, read_holder, read_remaining_s
from autotune.errors import HostBusyError, HostError, LeaseLostError
from tests.host.container import Container
from tests.host.inside_host import InsideHost

UNIT = "sglang-ddtree.service"
FOLDER = f"/run/autotune/{UNIT}"
FACTS = b"unit=sglang-ddtree.service\nwas_up=no\nmade_folder=no\ndrop_in=/run/systemd/system/x.conf\ninvocations=\n"


def take(host: Container, lease_s: float = 600, unit: str = UNIT) -> Lease:
    lease = Lease(InsideHost(host), unit, lease_s=lease_s, study="/studies/kimi")
    lease.acquire(FACTS)
    return lease


def wait_until(is_so: Callable[[], bool], patience_s: float = 30) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def list_timers(host: Container, pattern: str = "autotune-*.timer") -> list[str]:
    lines = host.shell(f"systemctl list-units --all --plain --no-legend '{pattern}'").splitlines()
    return sorted(line.split()[0] for line in lines)


def test_a_lease_that_is_given_back_leaves_nothing(host: Container):
    lease = take(host)
    during = list_timers(host)
    lease.release()

    assert lease.timer in during
    assert list_timers(host, "autotune-*") == []
    assert host.shell("ls /run/autotune") == ""


def test_a_second_tuner_is_refused_with_the_name_of_the_first(host: Container):
    first = take(host)
    second = Lease(InsideHost(host), UNIT, lease_s=600, study="/other")

    with pytest.raises(
        HostBusyError, match=r"another tuner works on sglang-ddtree.service: .*@.*process \d+.*in \d+ s"
    ):
        second.acquire(FACTS)

    assert list_timers(host) == [first.timer]
    first.check()
    first.release()


def test_a_tuner_of_another_unit_of_the_host_is_refused_too(host: Container):
    first = take(host)

    with pytest.raises(HostBusyError):
        take(host, unit="other.service")

    first.release()


def test_of_many_at_once_one_gets_it(host: Container):
    taken: list[Lease] = []
    refused: list[HostBusyError] = []

    def try_it() -> None:
        try:
            taken.append(take(host))
        except HostBusyError as error:
            refused.append(error)

    threads = [threading.Thread(target=try_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(taken), len(refused)) == (1, 3)
    assert list_timers(host) == [taken[0].timer]
    taken[0].release()


def test_the_holder_and_the_time_left_can_be_read(host: Container):
    lease = take(host, lease_s=100)
    holder = read_holder(InsideHost(host), FOLDER)
    left_s = read_remaining_s(InsideHost(host), lease.timer)

    assert holder is not None
    assert (holder.token, holder.study, holder.unit, holder.timer) == (lease.token, "/studies/kimi", UNIT, lease.timer)
    assert not holder.is_gone
    assert left_s is not None
    assert 50 < left_s <= 100
    lease.release()
    assert read_holder(InsideHost(host), FOLDER) is None
    assert read_remaining_s(InsideHost(host), lease.timer) is None


def test_it_is_renewed_in_the_background(host: Container):
    lease = take(host, lease_s=4)
    end_s = time.monotonic() + 4
    wait_until(lambda: time.monotonic() + (read_remaining_s(InsideHost(host), lease.timer) or 0.0) > end_s + 4)
    lease.check()
    code = lease.run_as_root(["true"]).exit_code
    lease.release()

    assert code == 0


def test_a_lease_that_nobody_renews_ends_and_its_tuner_is_fenced_off(host: Container):
    lease = take(host, lease_s=1)
    lease.stop_renewing()
    wait_until(lambda: "done" in host.shell(f"journalctl -o cat -u {lease.timer.replace('.timer', '.service')}"))

    with pytest.raises(LeaseLostError):
        lease.run_as_root(["touch", "/run/must-not-be"])
    with pytest.raises(LeaseLostError):
        lease.check()

    assert "must-not-be" not in host.shell("ls /run")
    assert "server=untouched" in host.shell(f"cat {FOLDER}/restored")
    assert not is_restoring(InsideHost(host), lease.timer)
    assert list_timers(host) == []


def test_a_timer_that_somebody_stops_is_armed_again(host: Container):
    lease = take(host)
    host.shell(f"systemctl stop {lease.timer}")
    lease.renew()
    timers = list_timers(host)
    lease.release()

    assert timers == [lease.timer]


def test_timers_of_tuners_that_died_on_the_way_to_a_lease_are_stopped(host: Container):
    orphan = find_timer(UNIT, "0123abcd")
    stranger = "autotune-nightly.timer"
    for name in (orphan, stranger):
        host.shell(f"systemd-run --quiet --on-active=600 --unit={name.removesuffix('.timer')} true")
    lease = take(host)
    timers = list_timers(host)
    lease.release()
    host.shell(f"systemctl stop {stranger}")

    assert timers == sorted([lease.timer, stranger])


def test_the_timer_survives_a_reload(host: Container):
    lease = take(host, lease_s=1)
    lease.stop_renewing()
    host.shell("systemctl daemon-reload")
    wait_until(lambda: "restored" in host.shell(f"ls {FOLDER}"))


def test_a_changing_command_waits_for_the_one_before_it(host: Container):
    lease = take(host)
    slow = threading.Thread(target=lambda: lease.run_as_root(["sleep", "1"]))
    slow.start()
    wait_until(lambda: "sleep" in host.shell("ps -A -o comm"))
    lease.run_as_root(["true"])
    after = host.shell("ps -A -o comm").split()
    slow.join()
    lease.release()

    assert "sleep" not in after


def test_a_tuner_that_sleeps_longer_than_its_lease_changes_nothing_when_it_wakes(host: Container):
    script = Path(__file__).with_name("sleeping_tuner.py")
    tuner = subprocess.Popen(
        [sys.executable, str(script), str(host.init_pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert tuner.stdin is not None
    assert tuner.stdout is not None
    try:
        assert tuner.stdout.readline() == "taken\n"
        tuner.send_signal(signal.SIGSTOP)
        wait_until(lambda: "restored" in host.shell(f"ls {FOLDER}"))
        tuner.send_signal(signal.SIGCONT)
        tuner.stdin.write("go\n")
        tuner.stdin.flush()
        answer = tuner.stdout.readline()
    finally:
        tuner.kill()
        tuner.communicate()

    assert answer == "LeaseLostError\n"
    assert "must-not-be" not in host.shell("ls /run")


def test_a_unit_of_the_longest_name_gets_its_lease_too(host: Container):
    lease = take(host, unit=f"llm-{'b' * 241}.service")
    timers = list_timers(host)
    lease.release()

    assert timers == [lease.timer]


def test_a_host_that_holds_no_lease_keeps_no_file_of_it(host: Container):
    with pytest.raises(HostError, match="the lease cannot be kept there"):
        take(host, lease_s=float("inf"))  # systemd takes no such time

    assert host.shell("ls /run/autotune") == ""


def test_the_timer_of_an_instance_has_a_name_of_its_own():
    assert find_timer("sglang@2.service", "0123456789abcdef") == "autotune-sglang:2-01234567.timer"
