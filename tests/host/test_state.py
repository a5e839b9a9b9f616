from __future__ import annotations

from tests.host.container import Container
from tests.host.service import UNIT, UNIT_PATH, start_stand_in, wait_until_serving
from tests.host.state import compare, snapshot

DROP_IN = f"/run/systemd/system/{UNIT}.d/zzz-autotune-trial.conf"


def test_a_restarted_service_is_as_it_was(host: Container):
    start_stand_in(host)
    before = snapshot(host)
    host.shell(f"systemctl restart {UNIT}")
    wait_until_serving(host)
    after = snapshot(host)

    assert compare(before, after) == []
    assert before.main_pid != after.main_pid
    assert before.invocation != after.invocation
    assert before.server is not None
    assert before.server["speculative_ddtree_budget"] == 16


def test_everything_that_a_night_may_leave_behind_is_seen(host: Container):
    start_stand_in(host)
    before = snapshot(host)
    host.put(UNIT_PATH, before.files[UNIT_PATH].content + b"# touched\n", 0o600)
    host.put(DROP_IN, "[Service]\nEnvironment=SGLANG_DDTREE_MAX_TOPK=2\n")
    host.put("/run/autotune/x/lease", "token=1\n")
    host.shell(f"systemctl daemon-reload; systemctl disable {UNIT}; systemctl restart {UNIT}")
    host.shell("systemd-run --quiet --on-active=600 --unit=autotune-x true")
    host.shell(
        "mkdir /sys/fs/cgroup/escaped; setsid sh -c 'echo $$ >/sys/fs/cgroup/escaped/cgroup.procs; sleep 60' >/dev/null 2>&1 &"
    )
    wait_until_serving(host)
    said = "\n".join(compare(before, snapshot(host)))

    assert f"{UNIT_PATH} has mode 0600 instead of 0644" in said
    assert f"{UNIT_PATH} changed: +# touched" in said
    assert f"{DROP_IN} is new" in said
    assert "/run/autotune/x/lease is new: b'token=1\\n'" in said
    assert "systemd says UnitFileState is 'disabled' instead of 'enabled'" in said
    assert "systemd says DropInPaths is" in said
    assert "the server's environment: SGLANG_DDTREE_MAX_TOPK is '2' instead of '4'" in said
    assert "autotune-x.timer" in said
    assert "sleep 60 in /escaped is 1 instead of None" in said


def test_a_stopped_service_and_an_exchanged_command_are_seen(host: Container):
    start_stand_in(host)
    before = snapshot(host)
    host.shell(f"systemctl stop {UNIT}; sed -i 's/budget 16/budget 8/' {UNIT_PATH}; systemctl daemon-reload")
    said = "\n".join(compare(before, snapshot(host)))

    assert "systemd says ActiveState is 'inactive' instead of 'active'" in said
    assert "the command of the unit is" in said
    assert "the command that runs is ''" in said
    assert "GPU memory is ('0, 4', '1, 4') instead of ('0, 80004', '1, 80004')" in said
    assert "the server does not generate now" in said
