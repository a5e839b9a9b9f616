"""What ``ss`` prints about who listens."""

from __future__ import annotations

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.port_owner import PortOwner, find_port_owner, parse_owners
from autotune.errors import HostError
from tests.deployment.scripted_host import ScriptedHost

GROUP = "/system.slice/sglang-ddtree.service"
SERVER = f'LISTEN 0 2048 0.0.0.0:30000 0.0.0.0:* users:(("python3",pid=77,fd=9),("sglang::tok",pid=78,fd=9)) cgroup:{GROUP}\n'
UNPRIVILEGED = f"LISTEN 0 2048 0.0.0.0:30000 0.0.0.0:* cgroup:{GROUP}\n"


def host_that_says(text: str) -> ScriptedHost:
    return ScriptedHost(lambda _command, _stdin: CommandOutput(0, text.encode(), b""))


def test_processes_and_group_are_read():
    assert parse_owners(SERVER) == (PortOwner("0.0.0.0", 30000, (77, 78), GROUP),)


def test_addresses_of_both_families_are_read():
    text = (
        "LISTEN 0 5 [::]:80 [::]:* cgroup:unreachable:1f\n"
        "LISTEN 0 5 [::1]:81 [::]:*\n"
        "LISTEN 0 5 *:82 *:* cgroup:/\n"
        "LISTEN 0 5 [::ffff:10.0.0.1]:83 *:* cgroup:/a\n"
        "LISTEN 0 5 127.0.0.53%lo:84 0.0.0.0:* cgroup:/b\n"
    )

    assert [(owner.address, owner.port, owner.control_group) for owner in parse_owners(text)] == [
        ("::", 80, None),
        ("::1", 81, None),
        ("*", 82, "/"),
        ("10.0.0.1", 83, "/a"),
        ("127.0.0.53", 84, "/b"),
    ]


@pytest.mark.parametrize(
    ("bound", "wanted", "is_in_the_way"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "127.0.0.1", False),
        ("*", "10.0.0.1", True),
        ("127.0.0.1", "localhost", True),
    ],
)
def test_a_socket_is_in_the_way_where_addresses_collide(bound, wanted, is_in_the_way):
    host = host_that_says(f"LISTEN 0 5 {bound}:30000 0.0.0.0:* cgroup:/x\n")

    assert (find_port_owner(host, wanted, 30000) is not None) == is_in_the_way


def test_a_socket_belongs_to_the_service_by_process_or_by_group():
    owner = parse_owners(SERVER)[0]
    hidden = parse_owners(UNPRIVILEGED)[0]

    assert owner.belongs_to(GROUP, (77, 78, 79))
    assert not owner.belongs_to(GROUP, (1, 2))  # escaped to another group since it opened the socket
    assert hidden.belongs_to(GROUP, (1,))
    assert not hidden.belongs_to("/system.slice/other.service", (1,))
    assert not hidden.belongs_to("", ())
    assert not PortOwner("0.0.0.0", 1, (), "/system.slice/sglang-ddtree.service2").belongs_to(GROUP, ())
    assert PortOwner("0.0.0.0", 1, (), f"{GROUP}/worker").belongs_to(GROUP, ())


def test_an_ss_that_knows_no_groups_is_asked_without():
    plain = SERVER.replace(f" cgroup:{GROUP}", "")
    host = ScriptedHost(
        lambda command, _stdin: (
            CommandOutput(255, b"", b"unrecognized option '--cgroup'")
            if "--cgroup" in command
            else CommandOutput(0, plain.encode(), b"")
        )
    )

    owner = find_port_owner(host, "0.0.0.0", 30000)

    assert owner is not None
    assert (owner.pids, owner.control_group) == ((77, 78), None)


def test_a_host_without_ss_is_said():
    with pytest.raises(HostError, match="who listens"):
        find_port_owner(ScriptedHost(lambda _command, _stdin: CommandOutput(127, b"", b"")), "0.0.0.0", 1)
