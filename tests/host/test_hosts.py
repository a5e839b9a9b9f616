"""Commands on a real host: as root, and as a user who becomes root by sudo."""

from __future__ import annotations

import time

import pytest

from autotune.deployment.host_files import make_folder, read_file, remove_file, write_file
from autotune.deployment.ssh import SshHost
from autotune.errors import ConnectionLostError, PermissionDenied, RemoteTimeout
from tests.host.container import Container
from tests.host.lab import Lab

SECONDS = "4321"


def connect(lab: Lab, host: Container, alias: str, *, keepalive_s: float | None = None) -> SshHost:
    return SshHost(alias, config=str(lab.ssh_config(host, is_forwarded=True)), keepalive_s=keepalive_s)


def sleepers(host: Container) -> list[str]:
    """The processes that a test has started and that still run."""
    return host.shell(f"pgrep -f '^(sudo .*)?sleep {SECONDS}$' || :").split()


@pytest.mark.parametrize(("alias", "is_root"), [("gpu1", True), ("gpu1-ubuntu", False)])
def test_a_command_runs_as_root_for_root_and_for_a_sudo_user(lab, host, alias, is_root):
    with connect(lab, host, alias) as ssh:
        assert (ssh.user_id == 0) is is_root
        assert ssh.run_as_root(["id", "-u"]).text == "0\n"
        assert ssh.run_as_root(["printenv", "LC_ALL"]).text == "C\n"


@pytest.mark.parametrize("alias", ["gpu1", "gpu1-ubuntu"])
def test_files_of_root_are_written_read_and_removed(lab, host, alias):
    folder, path = "/etc/a folder", "/etc/a folder/50-x.conf"
    with connect(lab, host, alias) as ssh:
        make_folder(ssh.run_as_root, folder, 0o700)
        write_file(ssh.run_as_root, path, b"\0secret\n", 0o600)
        assert host.shell(f"stat -c '%a %U %s' '{path}'") == "600 root 8\n"
        assert read_file(ssh, path) == b"\0secret\n"
        remove_file(ssh.run_as_root, path)
        assert read_file(ssh, path) is None
        ssh.expect(["rmdir"], ssh.run_as_root(["rmdir", folder]))


@pytest.mark.parametrize("alias", ["gpu1", "gpu1-ubuntu"])
@pytest.mark.parametrize("stdin", [b"", b"x"])
def test_a_deadline_ends_what_runs_as_root_too(lab, host, alias, stdin):
    with connect(lab, host, alias) as ssh:
        assert ssh.user_id >= 0
        with pytest.raises(RemoteTimeout, match=r"was ended$"):
            ssh.run_as_root(["sleep", SECONDS], stdin=stdin, timeout_s=1)
        assert sleepers(host) == []


def test_sudo_itself_passes_the_end_on_where_it_allows_nothing_else(lab, host):
    host.allow("ubuntu", ["/usr/bin/sleep"])
    with connect(lab, host, "gpu1-ubuntu") as ssh:
        with pytest.raises(RemoteTimeout, match=r"was ended$"):
            ssh.run_as_root(["sleep", SECONDS], timeout_s=1)
        assert sleepers(host) == []


def test_what_cannot_be_ended_is_named(lab, host):
    host.allow("ubuntu", ["/bin/sh", "/usr/bin/sh"])
    with connect(lab, host, "gpu1-ubuntu") as ssh:
        with pytest.raises(RemoteTimeout, match=r"of another user perhaps, could not be ended") as caught:
            ssh.run_as_root(["sh", "-c", f"trap '' TERM HUP; sleep {SECONDS}; :"], timeout_s=1)
        left = sleepers(host)
        assert left
        assert all(pid in str(caught.value) for pid in left)
        assert ssh.run(["true"]).exit_code == 0
    host.shell(f"kill -9 {' '.join(left)}")


def test_sudo_that_misses_a_command_names_it(lab, host):
    host.allow("ubuntu", ["/usr/bin/systemctl"])
    with connect(lab, host, "gpu1-ubuntu") as ssh:
        assert ssh.run_as_root(["systemctl", "is-system-running"]).exit_code == 0
        with pytest.raises(PermissionDenied, match="sudo does not run install without a password") as caught:
            write_file(ssh.run_as_root, "/etc/x", b"")
        assert "`ubuntu ALL=(root) NOPASSWD: /usr/bin/install`" in str(caught.value.hint)


def test_a_pulled_cable_is_noticed_and_a_plugged_one_used_again(lab, host):
    with connect(lab, host, "gpu1", keepalive_s=0.5) as ssh:
        assert ssh.run(["true"]).exit_code == 0
        host.link(is_up=False)
        started = time.monotonic()
        with pytest.raises(ConnectionLostError):
            ssh.run(["sleep", "60"], timeout_s=90)
        assert time.monotonic() - started < 30
        host.link(is_up=True)
        assert ssh.run(["echo", "back"], timeout_s=30).text == "back\n"
