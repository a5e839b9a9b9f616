"""A real SSH server, and everything that goes wrong on the way to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.deployment.host_files import remove_file, write_file
from autotune.deployment.local_host import LocalHost
from autotune.deployment.open_host import open_host
from autotune.deployment.ssh import SshHost, render_command
from autotune.errors import (
    AuthError,
    ConnectionLostError,
    HostError,
    HostKeyError,
    RemoteTimeout,
    SshError,
    UserError,
)
from autotune.settings import DeploymentSettings
from tests.deployment.loopback_sshd import LoopbackSshd, make_key
from tests.deployment.processes import wait_until
from tests.deployment.relay import Relay


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[LoopbackSshd]:
    with LoopbackSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def relay(server) -> Iterator[Relay]:
    with Relay(server.port) as between:
        yield between


def connect(server: LoopbackSshd, *lines: str, keepalive_s: float | None = None) -> SshHost:
    """Return a host that is reached with some more lines of client configuration."""
    return SshHost("loopback", config=server.write_config("config-more", *lines), keepalive_s=keepalive_s)


def through(server: LoopbackSshd, relay: Relay, *, keepalive_s: float | None = None) -> SshHost:
    name = f"HostKeyAlias [127.0.0.1]:{server.port}"
    return connect(server, f"Port {relay.port}", name, keepalive_s=keepalive_s)


def once_there(path: Path, action: Callable[[], None]) -> None:
    """Do something as soon as a command has written a file."""

    def wait() -> None:
        wait_until(lambda: path.exists() and path.stat().st_size > 0)
        action()

    threading.Thread(target=wait, daemon=True).start()


def no_thread_is_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("ssh-keepalive")]


def test_settings_choose_the_host(server):
    assert isinstance(open_host(DeploymentSettings()), LocalHost)
    settings = DeploymentSettings(
        kind="systemd", unit="x.service", host="relayed", ssh_config=str(server.config), data_path="tunnel"
    )
    with open_host(settings) as host:
        assert host.run(["echo", "here"]).text == "here\n"
        assert host.name.endswith("@relayed")


def test_leaving_ends_the_connection_and_its_threads(server, relay):
    with through(server, relay) as host:
        host.run(["true"])
    assert not host._connection
    wait_until(no_thread_is_left)


@pytest.mark.parametrize("destination", ["", "-oProxyCommand=touch /tmp/x", "a b", "gpu1\nHost x"])
def test_what_cannot_be_a_destination_is_refused(destination):
    with pytest.raises(UserError, match="not a destination"):
        SshHost(destination)


# The key of the host


def test_a_host_with_an_unknown_key_is_not_talked_to(server, tmp_path):
    empty = tmp_path / "known hosts none"
    empty.touch()
    with pytest.raises(HostKeyError) as caught, connect(server, f'UserKnownHostsFile "{empty}"'):
        pass
    text = str(caught.value)
    assert str(empty) in text
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in text
    assert "ssh -F" in text
    assert "SHA256:" in text
    assert empty.read_bytes() == b""


def test_a_changed_key_is_told_from_an_unknown_one_and_never_accepted(server, tmp_path):
    make_key(tmp_path / "other")
    known = tmp_path / "known_hosts"
    known.write_text(f"# comment\n[127.0.0.1]:{server.port} {(tmp_path / 'other.pub').read_text()}")
    before = known.read_bytes()
    with (
        pytest.raises(HostKeyError, match="has changed") as caught,
        connect(server, f"UserKnownHostsFile {known}", "StrictHostKeyChecking no"),
    ):
        pass
    assert f"{known}:2" in str(caught.value)
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f {known}" in str(caught.value)
    assert known.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("[127.0.0.1]:{port}", ""),
        ("127.0.0.1", ""),
        ("other,[127.0.0.*]:*", ""),
        ("gpu-machine", "HostKeyAlias gpu-machine"),
    ],
)
@pytest.mark.parametrize("is_hashed", [False, True])
def test_a_key_is_found_as_openssh_finds_it(server, tmp_path, name, line, is_hashed):
    known = tmp_path / "known_hosts"
    key = (server.folder / "host_key.pub").read_text()
    known.write_text(f"{name.format(port=server.port)} {key}")
    if is_hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    with connect(server, f"UserKnownHostsFile {tmp_path / 'absent'} {known}", *([line] if line else [])) as host:
        assert host.run(["true"]).exit_code == 0


def test_a_revoked_key_is_refused(server, tmp_path):
    known = tmp_path / "known_hosts"
    key = (server.folder / "host_key.pub").read_text()
    known.write_text(f"[127.0.0.1]:{server.port} {key}@revoked * {key}")
    with pytest.raises(HostKeyError, match="revoked"), connect(server, f"UserKnownHostsFile {known}"):
        pass


# Who we are


def test_a_host_that_takes_none_of_the_keys_says_which_were_offered(server, tmp_path):
    make_key(tmp_path / "stranger")
    config = server.folder / "config-stranger"
    config.write_text(server.config.read_text().replace(f"{server.folder}/user_key", f"{tmp_path}/stranger"))
    with pytest.raises(AuthError, match="none of the keys") as caught, SshHost("loopback", config=str(config)):
        pass
    assert f"offered: {tmp_path}/stranger" in str(caught.value)
    assert "authorized_keys" in str(caught.value)


@pytest.fixture
def locked_key(server, tmp_path) -> Iterator[Path]:
    path = tmp_path / "locked"
    make_key(path, passphrase="secret words")
    accepted = server.folder / "authorized_keys"
    before = accepted.read_text()
    accepted.write_text(before + (tmp_path / "locked.pub").read_text())
    yield path
    accepted.write_text(before)


@contextlib.contextmanager
def agent(folder: Path, key: Path | None) -> Iterator[Path]:
    """Run an agent that holds a key; its passphrase is given by a program, as a desktop would ask for it."""
    path = folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists)
        if key is not None:
            ask = folder / "ask"
            ask.write_text("#!/bin/sh\necho 'secret words'\n")
            ask.chmod(0o755)
            environment = os.environ | {
                "SSH_AUTH_SOCK": str(path),
                "SSH_ASKPASS": str(ask),
                "SSH_ASKPASS_REQUIRE": "force",
            }
            subprocess.run(["ssh-add", str(key)], env=environment, check=True, capture_output=True)
        yield path
    finally:
        process.terminate()
        process.wait()


def only_key(server: LoopbackSshd, key: Path, agent_line: str, *, only: str = "yes") -> str:
    path = server.folder / "config-only-key"
    text = server.config.read_text().replace("IdentityAgent none", f"IdentityAgent {agent_line}")
    text = text.replace(f"{server.folder}/user_key", str(key)).replace("IdentitiesOnly yes", f"IdentitiesOnly {only}")
    path.write_text(text)
    return str(path)


def test_a_locked_key_without_an_agent_asks_for_ssh_add(server, locked_key):
    with (
        pytest.raises(AuthError, match="ssh-add") as caught,
        SshHost("loopback", config=only_key(server, locked_key, "none")),
    ):
        pass
    assert f"{locked_key} is locked with a passphrase" in str(caught.value)


@pytest.mark.parametrize("only", ["yes", "no"])
def test_a_locked_key_is_used_through_the_agent(server, locked_key, tmp_path, only):
    with (
        agent(tmp_path, locked_key) as path,
        SshHost("loopback", config=only_key(server, locked_key, str(path), only=only)) as host,
    ):
        assert host.run(["true"]).exit_code == 0


def test_the_agent_of_the_environment_is_asked(server, locked_key, tmp_path, monkeypatch):
    with agent(tmp_path, locked_key) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        config = only_key(server, tmp_path / "absent", "SSH_AUTH_SOCK", only="no")
        with SshHost("loopback", config=config) as host:
            assert host.run(["true"]).exit_code == 0


def test_other_keys_of_the_agent_are_not_offered_when_only_named_ones_may_be(server, locked_key, tmp_path):
    with agent(tmp_path, locked_key) as path:
        config = only_key(server, tmp_path / "absent", str(path), only="yes")
        with pytest.raises(AuthError, match="there was no key to offer"), SshHost("loopback", config=config):
            pass


def test_an_agent_that_is_gone_is_named(server, tmp_path):
    config = only_key(server, tmp_path / "absent", str(tmp_path / "gone"))
    with pytest.raises(AuthError, match=f"the agent at {tmp_path}/gone does not answer"):
        SshHost("loopback", config=config).__enter__()


# No way to the machine


def test_a_name_that_nobody_knows(server):
    with pytest.raises(ConnectionLostError, match="is not known to this machine's resolver"):
        connect(server, "HostName no-such-machine.invalid").__enter__()


def test_a_port_where_nothing_listens(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{port} refuses connections"):
        connect(server, f"Port {port}").__enter__()


def test_a_port_that_never_says_anything(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = connect(server, f"Port {listener.getsockname()[1]}", "ConnectTimeout 1")
        started = time.monotonic()
        with pytest.raises(ConnectionLostError):
            host.__enter__()
    assert time.monotonic() - started < 8


def test_a_port_that_speaks_something_else(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ConnectionLostError, match="does not speak SSH"):
            connect(server, f"Port {listener.getsockname()[1]}", "ConnectTimeout 2").__enter__()


def test_a_configuration_that_openssh_cannot_read_is_named(tmp_path):
    config = tmp_path / "config"
    config.write_text("Host *\n    Portt 22\n")
    with pytest.raises(SshError, match=r"cannot read its configuration.*[Pp]ortt"):
        SshHost("gpu1", config=str(config))


# Jumps and proxies


def jump_config(server: LoopbackSshd, *, hop_key: str | None = None) -> str:
    text = server.config.read_text()
    hop = text.replace("Host loopback relayed", "Host hop").replace(
        f"{server.folder}/user_key", hop_key or f"{server.folder}/user_key"
    )
    path = server.folder / "config-jump"
    path.write_text(f"{hop}\n{text}    ProxyJump hop\n")
    return str(path)


def proxies() -> list[str]:
    """The processes of ours that stand for connections."""
    answer = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    )
    return [line for line in answer.stdout.splitlines() if " -W " in line or "nc-stand-in" in line]


def test_a_jump_is_made_by_openssh_and_ends_with_the_connection(server):
    with SshHost("loopback", config=jump_config(server)) as host:
        assert host.run(["cat"], stdin=b"x" * 2**21).stdout == b"x" * 2**21
        assert len(proxies()) == 1
    assert proxies() == []


def test_a_jump_that_lets_nobody_in_is_named_with_its_own_words(server, tmp_path):
    make_key(tmp_path / "stranger")
    with pytest.raises(AuthError, match=r"jump hop .*Permission denied"):
        SshHost("loopback", config=jump_config(server, hop_key=f"{tmp_path}/stranger")).__enter__()
    assert proxies() == []


def test_a_proxy_command_is_the_socket(server):
    program = "import socket,sys,threading,os;s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
    program += "def up():\n while d:=os.read(0,65536): s.sendall(d)\n os._exit(0)\n"
    program += "threading.Thread(target=up,daemon=True).start()\nwhile d:=s.recv(65536): os.write(1,d)\n"
    script = server.folder / "nc-stand-in.py"
    script.write_text(program)
    with connect(server, f"ProxyCommand {sys.executable} {script} %h %p") as host:
        assert host.run(["cat"], stdin=b"y" * 2**20).stdout == b"y" * 2**20
        assert len(proxies()) == 1
    assert proxies() == []


def test_a_proxy_command_that_fails_is_told_with_its_words(server):
    with pytest.raises(ConnectionLostError, match="no such way"):
        connect(server, "ProxyCommand echo no such way >&2; exit 1", "ConnectTimeout 3").__enter__()


TUNER = """
import sys, threading
from autotune.deployment.ssh import SshHost
with SshHost("loopback", config=sys.argv[1]) as host:
    print(host._connection._link.proxy.pid, flush=True)
    threading.Event().wait()
"""


def test_no_jump_outlives_a_killed_tuner(server):
    with subprocess.Popen(
        [sys.executable, "-c", TUNER, jump_config(server)], stdout=subprocess.PIPE, text=True
    ) as tuner:
        assert tuner.stdout is not None
        jump = Path("/proc") / tuner.stdout.readline().strip()
        assert b"-W" in (jump / "cmdline").read_bytes()
        tuner.kill()
        tuner.wait()
        wait_until(lambda: not jump.exists() or (jump / "cmdline").read_bytes() == b"", 5)


# A link that breaks


def test_a_connection_that_was_dropped_while_idle_is_made_again_unasked(server, relay):
    """case 48"""
    with through(server, relay) as host:
        host.run(["true"])
        relay.reset()
        assert host.run(["echo", "again"]).text == "again\n"
        server.kill_sessions()
        assert host.run(["echo", "and again"]).text == "and again\n"
    assert relay.accepted == 3


def test_a_firewall_that_drops_idle_connections_does_not_drop_ours(server):
    """case 48"""
    with Relay(server.port, idle_s=1.5) as relay, through(server, relay, keepalive_s=0.2) as host:
        assert host.run(["sh", "-c", "sleep 2.2; echo measured"]).text == "measured\n"
        assert (relay.dropped, relay.accepted) == (0, 1)


def test_what_comes_after_a_dropped_connection_is_finished_on_a_new_one(server, tmp_path):
    """case 48"""
    path = str(tmp_path / "unit.conf")
    with Relay(server.port, idle_s=0.4) as relay, through(server, relay, keepalive_s=60) as host:
        write_file(host.run, path, b"trial")
        wait_until(lambda: relay.dropped > 0)
        assert host.run(["cat", path], is_idempotent=True).text == "trial"
        remove_file(host.run, path)
        assert not Path(path).exists()


def test_an_idle_connection_is_kept_alive_by_traffic(server, relay):
    """case 48"""
    with through(server, relay, keepalive_s=0.1) as host:
        host.run(["true"])
        before = relay.passed_bytes
        wait_until(lambda: relay.passed_bytes > before + 100, 5)
        assert host.run(["true"]).exit_code == 0
    assert relay.accepted == 1


def test_keepalive_is_on_even_where_ssh_has_it_off(server):
    assert connect(server, "ServerAliveInterval 0")._keepalive_s == 15
    assert connect(server, "ServerAliveInterval 7")._keepalive_s == 7


def test_losing_the_link_in_a_command_is_an_error_and_nothing_is_repeated(server, relay, tmp_path):
    with through(server, relay) as host:
        host.run(["true"])
        once_there(tmp_path / "runs", relay.reset)
        command = ["sh", "-c", 'echo ran >> "$1"; sleep 3', "x", str(tmp_path / "runs")]
        with pytest.raises(ConnectionLostError, match="whether it has ended is unknown"):
            host.run(command)
        assert (tmp_path / "runs").read_text() == "ran\n"
        assert host.run(["true"]).exit_code == 0


def test_a_killed_server_process_in_a_command_is_the_same(server):
    with connect(server) as host:
        threading.Timer(0.3, server.kill_sessions).start()
        with pytest.raises(ConnectionLostError):
            host.run(["sleep", "3"])
        assert host.run(["true"]).exit_code == 0


def test_an_idempotent_command_is_run_once_more(server, relay, tmp_path):
    """case 48"""
    with through(server, relay) as host:
        host.run(["true"])
        once_there(tmp_path / "runs", relay.reset)
        script = 'echo ran >> "$1"; test "$(wc -l < "$1")" = 2 && echo done || sleep 5'
        output = host.run(["sh", "-c", script, "x", str(tmp_path / "runs")], is_idempotent=True)
    assert output.text == "done\n"
    assert (tmp_path / "runs").read_text() == "ran\nran\n"


def test_a_second_loss_is_an_error_for_idempotent_commands_too(server, relay):
    with through(server, relay) as host:
        host.run(["true"])
        stop = threading.Event()

        def cut_again_and_again() -> None:
            while not stop.wait(0.3):
                relay.reset()

        threading.Thread(target=cut_again_and_again, daemon=True).start()
        with pytest.raises(ConnectionLostError):
            host.run(["sleep", "5"], is_idempotent=True)
        stop.set()


def test_a_cut_cable_is_noticed_within_three_keepalives(server, relay):
    with through(server, relay, keepalive_s=0.3) as host:
        host.run(["true"])
        threading.Timer(0.2, relay.cut).start()
        started = time.monotonic()
        with pytest.raises(ConnectionLostError, match="silent"):
            host.run(["sleep", "4"], timeout_s=30)
        assert time.monotonic() - started < 3
        assert host.run(["echo", "new cable"], timeout_s=5).text == "new cable\n"


def test_a_cut_cable_never_makes_a_command_wait_much_longer_than_its_deadline(server, relay):
    with through(server, relay, keepalive_s=60) as host:
        host.run(["true"])
        threading.Timer(0.2, relay.cut).start()
        started = time.monotonic()
        with pytest.raises(ConnectionLostError, match="does not answer"):
            host.run(["sleep", "4"], timeout_s=0.6)
        assert time.monotonic() - started < 5


def test_a_cable_cut_before_a_command_costs_no_more_than_a_new_connection(server, relay):
    with through(server, relay, keepalive_s=0.2) as host:
        host.run(["true"])
        relay.cut()
        started = time.monotonic()
        assert host.run(["echo", "fine"], timeout_s=20).text == "fine\n"
        assert time.monotonic() - started < 5


def test_a_cut_cable_while_input_is_sent_is_noticed(server, relay):
    with through(server, relay, keepalive_s=0.3) as host:
        host.run(["true"])
        threading.Timer(0.3, relay.cut).start()
        with pytest.raises(ConnectionLostError):
            host.run(["sh", "-c", "sleep 4; cat"], stdin=b"x" * 2**24, timeout_s=30)


def test_what_a_lost_connection_leaves_running_ends_by_itself(server):
    line = render_command(["sleep", "100"], "token", 5, has_input=False).decode()
    assert "timeout -k 5 " in line
    assert " 15.000 sleep 100" in line


# Deadlines, and the login shell


def test_a_deadline_does_not_harm_the_connection(server, relay):
    with through(server, relay) as host:
        with pytest.raises(RemoteTimeout):
            host.run(["sleep", "30"], timeout_s=0.3)
        assert host.run(["true"]).exit_code == 0
    assert relay.accepted == 1


def test_commands_take_turns_where_the_server_allows_one_session(tmp_path):
    with LoopbackSshd(tmp_path, "MaxSessions 1") as server, SshHost("loopback", config=str(server.config)) as host:
        there = tmp_path / "there"
        said: list[str] = []
        line = f"echo begun > {there}; sleep 0.3; echo first"
        slow = threading.Thread(target=lambda: said.append(host.run(["sh", "-c", line]).text))
        slow.start()
        wait_until(there.exists)
        assert host.run(["echo", "second"]).text == "second\n"
        slow.join()
        assert said == ["first\n"]


def test_other_commands_of_the_same_host_outlive_a_deadline(server):
    with connect(server) as host:
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(host.run(["sh", "-c", "sleep 1.5; echo lives"]).text))
        thread.start()
        with pytest.raises(RemoteTimeout):
            host.run(["sleep", "30"], timeout_s=0.3)
        thread.join(10)
        assert answers == ["lives\n"]


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_quoting_is_for_any_posix_login_shell(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    words = ["a b", "$(touch /tmp/x)", '{"a": "b\'c"}', "-n", "", "line\nline", "größe", "\\", "!", "*"]
    line = render_command(["printf", r"%s\0", *words], "token", 5, has_input=False)
    answer = subprocess.run([shell, "-c", line], capture_output=True, check=True)
    assert answer.stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(
    "forced",
    [
        'echo Welcome!; eval "$SSH_ORIGINAL_COMMAND"',  # what a ~/.bashrc prints
        "echo This account is currently not available.; exit 1",
        "exit 0",
        "cat",
    ],
)
def test_a_host_that_does_not_run_commands_as_they_are_sent_is_not_entered(tmp_path, forced):
    with LoopbackSshd(tmp_path, f"ForceCommand {forced}") as server:
        host = SshHost("loopback", config=str(server.config))
        with pytest.raises(HostError, match="does not run commands") as caught, host:
            pass
        assert "login shell" in (caught.value.hint or "")
        assert "ForceCommand" in (caught.value.hint or "")
        assert not host._connection


def test_a_file_is_written_over_a_connection_that_breaks_before(server, relay, tmp_path):
    """case 48"""
    with through(server, relay) as host:
        host.run(["true"])
        relay.reset()
        write_file(host.run, str(tmp_path / "x"), b"whole" * 100_000)
    assert (tmp_path / "x").read_bytes() == b"whole" * 100_000
