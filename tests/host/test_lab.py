from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.host.container import Container
from tests.host.lab import CHECKOUT, Lab, sweep
from tests.host.pristine import Pristine
from tests.host.service import (
    PORT,
    UNIT,
    is_serving,
    set_faults,
    start_embedded,
    start_stand_in,
    wait_until_serving,
)


def test_a_host_runs_systemd_as_its_first_process_and_is_up(host: Container):
    assert host.shell("cat /proc/1/comm").strip() == "systemd"
    assert host.shell("systemctl is-system-running").strip() == "running"
    assert host.shell("hostname").strip() == "gpu1"


def test_users_log_in_with_a_pinned_key_and_only_sudo_makes_them_root(host: Container):
    assert host.ssh("id -un").strip() == "root"
    assert host.ssh("id -un", user="ubuntu").strip() == "ubuntu"
    assert host.ssh("sudo -n id -un", user="ubuntu").strip() == "root"


def test_sudo_can_be_limited_to_some_commands(host: Container):
    host.allow("ubuntu", ["/usr/bin/cat /etc/shadow", "/usr/bin/systemctl"])

    assert "root" in host.ssh("sudo -n cat /etc/shadow", user="ubuntu")
    assert "password is required" in host.ssh("sudo -n id 2>&1", user="ubuntu", check=False)


def test_a_host_sees_this_checkout_and_its_environment_but_cannot_write_them(host: Container):
    version = host.ssh(f"{sys.prefix}/bin/autotune --version", user="ubuntu")
    refused = host.shell(f"touch {CHECKOUT}/x 2>&1", check=False)

    assert "autotune" in version
    assert "Read-only file system" in refused


def test_there_is_no_way_out_of_the_lab(lab: Lab, host: Container):
    assert lab.run(["ip", "route", "show", "default"]).stdout == b""
    assert host.shell("ip route show default") == ""
    assert "unreachable" in host.shell("ping -c1 -W1 192.0.2.1 2>&1 || echo unreachable", check=False)


def test_code_in_this_process_reaches_a_host_through_a_relay(lab: Lab, host: Container):
    words = ["ssh", "-F", str(lab.ssh_config(host, is_forwarded=True)), "gpu1-ubuntu", "id -un"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "ubuntu"


def test_a_pulled_cable_is_felt_until_it_is_plugged_again(lab: Lab, host: Container):
    host.link(is_up=False)
    with pytest.raises(OSError, match=r"timed out|No route"):
        lab.connect(host.ip, 22, timeout_s=0.3)
    host.link(is_up=True)

    host.wait_for_port(22)


def test_a_power_loss_empties_run_and_keeps_the_disk(host: Container):
    host.put("/run/x", "1")
    host.put("/etc/x", "1")
    boot = host.shell("cat /proc/sys/kernel/random/boot_id")
    host.crash()
    assert not host.is_running
    host.boot()

    assert host.shell("ls /run/x /etc/x 2>/dev/null", check=False).split() == ["/etc/x"]
    assert host.shell("cat /proc/sys/kernel/random/boot_id") != boot


def test_the_stand_in_serves_and_holds_gpu_memory_until_it_is_stopped(host: Container):
    start_stand_in(host)
    asked = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    held = host.run(asked).stdout.decode().splitlines()
    pid = host.shell(f"systemctl show --value -p MainPID {UNIT}").strip()
    apps = host.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]).stdout
    host.shell(f"systemctl stop {UNIT}")

    assert held == ["0, 80004", "1, 80004"]
    assert apps.decode().splitlines() == [f"{pid}, 80000"] * 2
    assert host.run(asked).stdout.decode().splitlines() == ["0, 4", "1, 4"]


def test_a_process_that_escapes_outlives_the_service_with_its_memory(host: Container):
    set_faults(host, {"fault": "escapes"})
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    held = host.shell("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits").split()

    assert held == ["80004", "80004"]


def leave_everything_behind(host: Container) -> None:
    set_faults(host, {"fault": "escapes"})
    start_stand_in(host)
    host.put("/etc/a/x", "1")
    host.put("/usr/local/bin/date", "#!/bin/sh\n", 0o755)
    host.put("/usr/local/bin/nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755)
    host.put("/root/.ssh/authorized_keys", "nobody\n", 0o600)
    host.allow("ubuntu", [])
    host.shell(f"mv /etc/systemd/system/{UNIT} /usr/lib/systemd/system/ && ln -s /dev/null /etc/systemd/system/{UNIT}")
    host.shell("rm /usr/lib/systemd/system/getty.target; chmod 700 /etc/passwd; rm /root/.ssh/authorized_keys")


def test_the_host_is_as_new_after_a_test_that_left_everything_behind(booted: Pristine, host: Container):
    """Units, files and rules anywhere on its disk, hidden and changed files of the system, processes, GPU memory."""
    leave_everything_behind(host)

    booted.put_back()

    assert not is_serving(host)
    assert host.shell("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits").split() == ["4", "4"]
    assert host.shell(f"systemctl show -p LoadState --value {UNIT}").strip() == "not-found"
    assert host.shell("ls -d /run/fake-gpu /etc/stand-in-server.json /etc/a 2>/dev/null", check=False) == ""
    assert host.shell("command -v date").strip() == "/usr/bin/date"
    assert host.shell("systemctl show -p LoadState --value getty.target").strip() == "loaded"
    assert host.shell("stat -c %a /etc/passwd").strip() == "644"
    assert host.ssh("sudo -n id -u", user="ubuntu").strip() == "0"
    assert host.ssh("id -u").strip() == "0"


def test_a_server_that_crashes_at_start_is_started_again_and_again(host: Container):
    set_faults(host, {"fault": "crash"})
    with pytest.raises(TimeoutError, match="auto-restart"):
        start_stand_in(host, timeout_s=2.0)

    assert int(host.shell(f"systemctl show --value -p NRestarts {UNIT}")) >= 1
    assert "the gods are angry" in host.shell(f"journalctl --no-pager -o cat -u {UNIT}")


def test_the_embedded_server_runs_as_the_service(host: Container):
    before = time.monotonic()
    start_embedded(host)
    print(f"the embedded server serves after {time.monotonic() - before:.1f} s")

    assert is_serving(host)
    assert f"--port {PORT}" in host.shell(f"tr '\\0' ' ' </proc/$(systemctl show --value -p MainPID {UNIT})/cmdline")


def test_the_service_serves_again_after_a_reboot(host: Container):
    start_stand_in(host)
    host.crash()
    host.boot()

    wait_until_serving(host)


def list_traces(identifier: str) -> list[str]:
    """Everything on this machine that carries the name of a lab."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if identifier in line]
    folders = [str(path) for top in FOLDERS for path in Path("/").glob(f"{top}/*{identifier}*")]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [*mounts, *folders, *(repr(words) for words in commands if identifier.encode() in words)]


FOLDERS = (
    "run/netns",
    "dev/shm",
    "run/autotune-labs",
    "run/systemd/nspawn/*",
    "sys/fs/cgroup/*",
    "sys/fs/cgroup",
    "tmp",
)
KILLED = """
import os, signal
from tests.host.lab import Lab
lab = Lab()
lab.host("other")
print(lab.identifier, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lab_that_is_closed_leaves_nothing_on_this_machine(lab: Lab):
    with Lab() as other:
        other.host("other")
        during = list_traces(other.identifier)

    assert len(during) > 5
    assert list_traces(other.identifier) == []


def test_what_a_killed_lab_leaves_is_swept_by_the_next(lab: Lab):
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    identifier = killed.stdout.strip()
    left = list_traces(identifier)
    swept = sweep()

    assert killed.returncode == -9
    assert left
    assert swept == [identifier]
    assert list_traces(identifier) == []
