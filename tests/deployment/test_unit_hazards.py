"""What acts on more than its own server is named."""

from __future__ import annotations

import pytest

from autotune.deployment.unit_hazards import find_hazards
from tests.deployment.units import make_unit


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/bin/sh -c 'pkill -f sglang || true'", "runs pkill"),
        ("/usr/bin/killall python3", "runs killall"),
        ("/bin/fuser -k 30000/tcp", "runs fuser -k"),
        ("/bin/systemctl restart nvidia-persistenced", "changes units"),
        ("/bin/systemctl daemon-reload", "changes units"),
        ("/bin/sed -i s/a/b/ /etc/default/llm", "changes units or files"),
        ("/bin/rm -rf /run/systemd/system/x.service.d", "changes units or files"),
    ],
)
def test_a_hook_that_reaches_beyond_its_server_is_named(command, expected):
    (sentence,) = find_hazards(make_unit("ExecStart=/bin/a", hooks=(("ExecStartPre", tuple(command.split())),)))

    assert sentence.startswith(f"ExecStartPre= {expected}")


@pytest.mark.parametrize(
    "command", ["/bin/mkdir -p /x", "/usr/bin/nvidia-smi -pm 1", "/bin/systemctl is-active y", "/opt/skill-x"]
)
def test_an_ordinary_hook_is_not(command):
    assert find_hazards(make_unit("ExecStart=/bin/a", hooks=(("ExecStartPost", tuple(command.split())),))) == ()


def test_a_kill_mode_that_leaves_workers_behind_is_named():
    (sentence,) = find_hazards(make_unit("ExecStart=/bin/a", kill_mode="process"))

    assert sentence.startswith("KillMode=process leaves processes behind")
