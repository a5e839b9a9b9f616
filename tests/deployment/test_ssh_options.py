"""What OpenSSH says about a destination becomes one record."""

from __future__ import annotations

import base64
import getpass
from pathlib import Path

import pytest

from autotune.deployment.ssh_host_key import KnownKey, check_host_key, fingerprint, parse_known_keys, preferred_types
from autotune.deployment.ssh_options import fetch_ssh_options, jump_command, parse_ssh_options, unattended
from autotune.errors import HostKeyError, SshError, UserError

SAID = """\
host gpu1
user tuner
hostname 10.0.0.7
port 2222
batchmode no
identitiesonly yes
stricthostkeychecking ask
serveraliveinterval 0
identityfile ~/.ssh/my keys/id_gpu
identityfile ~/.ssh/id_rsa
globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2
userknownhostsfile ~/.ssh/known_hosts
connecttimeout none
"""


def said(**changes: str) -> str:
    """What ``ssh -G`` prints, with some lines changed or added."""
    lines = [line for line in SAID.splitlines() if line.split()[0] not in changes]
    return "\n".join([*lines, *(f"{key} {value}" for key, value in changes.items())]) + "\n"


def test_the_options_that_matter_are_read():
    options = parse_ssh_options(SAID, "gpu1", "my-config")
    home = str(Path.home())
    assert (options.hostname, options.user, options.port, options.config) == ("10.0.0.7", "tuner", 2222, "my-config")
    assert options.identity_files == (f"{home}/.ssh/my keys/id_gpu", f"{home}/.ssh/id_rsa")
    assert options.identities_only
    assert options.identity_agent is None
    assert options.user_known_hosts_files == (f"{home}/.ssh/known_hosts",)
    assert options.global_known_hosts_files == ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
    assert options.known_hosts_files == options.user_known_hosts_files + options.global_known_hosts_files
    assert (options.host_key_alias, options.proxy_jump, options.proxy_command) == (None, None, None)


def test_unset_times_get_ours_and_set_ones_stay():
    ours = parse_ssh_options(SAID, "gpu1")
    assert (ours.connect_timeout_s, ours.keepalive_s) == (15.0, 15.0)
    theirs = parse_ssh_options(said(connecttimeout="7", serveraliveinterval="5"), "gpu1")
    assert (theirs.connect_timeout_s, theirs.keepalive_s) == (7.0, 5.0)


@pytest.mark.parametrize("value", ["none", ""])
def test_none_is_no_proxy(value):
    options = parse_ssh_options(said(proxycommand=value, proxyjump=value), "gpu1")
    assert (options.proxy_command, options.proxy_jump) == (None, None)


def test_tokens_of_a_proxy_command_are_expanded():
    line = "connect --to [%h]:%p --as %r --name %n --me %u --literal %%h %C"
    options = parse_ssh_options(said(proxycommand=line), "tuner@gpu1")
    expected = f"connect --to [10.0.0.7]:2222 --as tuner --name gpu1 --me {getpass.getuser()} --literal %h %C"
    assert options.proxy_command == expected


def test_a_known_hosts_file_with_a_blank_in_its_name_is_one_file(tmp_path):
    path = tmp_path / "known hosts"
    path.touch()
    assert parse_ssh_options(said(userknownhostsfile=str(path)), "gpu1").user_known_hosts_files == (str(path),)
    assert parse_ssh_options(said(userknownhostsfile="none"), "gpu1").user_known_hosts_files == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [("SSH_AUTH_SOCK", None), ("none", "none"), ("/run/%r/agent", "/run/tuner/agent"), ("$A", "$A")],
)
def test_the_agent_is_the_one_that_openssh_would_ask(value, expected):
    assert parse_ssh_options(said(identityagent=value), "gpu1").identity_agent == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "[10.0.0.7]:2222"),
        ({"port": "22"}, "10.0.0.7"),
        ({"port": "22", "hostname": "GPU1.Example.org"}, "gpu1.example.org"),
        ({"hostkeyalias": "gpu-farm"}, "gpu-farm"),
    ],
)
def test_the_name_that_the_key_is_known_by(changes, expected):
    assert parse_ssh_options(said(**changes), "gpu1").known_as == expected


@pytest.mark.parametrize("missing", ["hostname", "user", "port"])
def test_an_answer_without_the_address_is_an_error(missing):
    text = "\n".join(line for line in SAID.splitlines() if not line.startswith(missing))
    with pytest.raises(SshError, match="does not say how to reach gpu1"):
        parse_ssh_options(text, "gpu1")


def test_people_read_the_user_once():
    assert parse_ssh_options(SAID, "gpu1").name == "tuner@gpu1"
    assert parse_ssh_options(SAID, "root@gpu1").name == "root@gpu1"


def test_openssh_itself_is_asked_with_the_file_that_was_named(tmp_path):
    config = tmp_path / "my config"
    config.write_text(
        "Host gpu1\n  HostName 192.0.2.9\n  Port 2022\n  User ubuntu\n  ProxyJump j1.example,me@j2.example:99\n"
    )
    options = fetch_ssh_options("gpu1", str(config))
    assert (options.hostname, options.port, options.user) == ("192.0.2.9", 2022, "ubuntu")
    assert options.proxy_jump == "j1.example,me@j2.example:99"
    assert fetch_ssh_options("root@gpu1", str(config)).user == "root"


def test_without_an_openssh_client_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshError, match="openssh-client"):
        fetch_ssh_options("gpu1")


@pytest.mark.parametrize("destination", ["-oProxyCommand=x", "", "a b", "a\tb", "a\nb"])
def test_an_option_is_never_taken_for_a_destination(destination):
    with pytest.raises(UserError):
        fetch_ssh_options(destination)


def test_the_last_jump_is_reached_through_those_before():
    options = parse_ssh_options(said(proxyjump="me@j1:99,j2"), "gpu1", "/c/my config")
    command = jump_command(options)
    assert command[:3] == ("ssh", "-F", "/c/my config")
    assert command[-6:] == ("-J", "me@j1:99", "-W", "[10.0.0.7]:2222", "--", "ssh://j2")
    assert "-J" not in jump_command(parse_ssh_options(said(proxyjump="j2"), "gpu1"))


def test_an_ssh_that_nobody_watches_asks_nothing_and_trusts_nobody_new():
    words = unattended(parse_ssh_options(said(serveraliveinterval="5"), "gpu1"))
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ServerAliveInterval=5"} <= set(words)


# Keys of hosts

KEY, OTHER = b"\0\0\0\x0bssh-ed25519key", b"\0\0\0\x0bssh-ed25519other"


def line(key: bytes, marker: str = "", kind: str = "ssh-ed25519") -> str:
    return f"{marker} h {kind} {base64.b64encode(key).decode()} comment".strip()


def test_what_ssh_keygen_found_is_read_with_markers_and_line_numbers():
    text = f"# Host h found: line 3 \n{line(KEY)}\n# Host h found: line 5 REVOKED\n{line(OTHER, '@revoked')}\nh ssh-rsa ***\n\n"
    assert parse_known_keys(text, "/k") == (
        KnownKey("ssh-ed25519", KEY, "", "/k", 3),
        KnownKey("ssh-ed25519", OTHER, "@revoked", "/k", 5),
    )


def test_the_host_is_asked_first_for_a_key_that_is_known():
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    known = (KnownKey("ssh-rsa", KEY, "", "/k", 1), KnownKey("ecdsa-sha2-nistp256", KEY, "@revoked", "/k", 2))
    expected = ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519", "ecdsa-sha2-nistp256")
    assert preferred_types(known, offered) == expected
    assert preferred_types((), offered) == offered


def test_any_known_key_of_the_host_will_do():
    options = parse_ssh_options(SAID, "gpu1")
    known = parse_known_keys(f"{line(OTHER)}\n{line(KEY)}\n", "/k")
    check_host_key(options, known, "ssh-ed25519", KEY)


def test_a_certificate_authority_is_no_key_of_the_host():
    options = parse_ssh_options(SAID, "gpu1")
    with pytest.raises(HostKeyError, match="certificates of hosts are not read"):
        check_host_key(options, parse_known_keys(line(KEY, "@cert-authority"), "/k"), "ssh-ed25519", KEY)


def test_a_fingerprint_is_written_as_openssh_writes_it():
    assert fingerprint(b"") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
