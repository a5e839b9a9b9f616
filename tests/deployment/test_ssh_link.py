"""Why there is no way to a host, in a sentence each."""

from __future__ import annotations

import errno
import socket

import paramiko
import pytest

from autotune.deployment.ssh_link import describe_way, explain_failure, explain_words
from autotune.deployment.ssh_options import parse_ssh_options
from autotune.errors import AuthError, ConnectionLostError, HostKeyError

SAID = "hostname 192.0.2.9\nuser u\nport 2222\nconnecttimeout 7\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            "the name 192.0.2.9 is not known to this machine's resolver",
        ),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "192.0.2.9:2222 refuses connections"),
        (TimeoutError("timed out"), "192.0.2.9:2222 did not answer within 7 s"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "there is no route to 192.0.2.9:2222"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "there is no route to 192.0.2.9:2222"),
        (paramiko.SSHException("Error reading SSH protocol banner"), "does not speak SSH, or closed the connection"),
        (EOFError(), "closed the connection: EOFError"),
        (ConnectionResetError(errno.ECONNRESET, "reset by peer"), "closed the connection: .*reset by peer"),
    ],
)
def test_each_failure_to_connect_has_its_sentence(error, words):
    with pytest.raises(ConnectionLostError, match=words):
        raise explain_failure(parse_ssh_options(SAID, "gpu1"), error)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Host key verification failed.", HostKeyError),
        ("u@j: Permission denied (publickey).", AuthError),
        ("ssh: connect to host j port 22: Connection timed out", ConnectionLostError),
        ("", ConnectionLostError),
    ],
)
def test_what_an_ssh_process_says_decides_the_error(words, kind):
    error = explain_words(parse_ssh_options(SAID, "gpu1"), "the tunnel did not open", words)
    assert type(error) is kind
    assert str(error).startswith("u@gpu1: the tunnel did not open: " + (words or "it said nothing"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "the connection to 192.0.2.9:2222"),
        ("proxyjump me@j1,j2\n", "the jump me@j1,j2 to 192.0.2.9:2222"),
        ("proxycommand nc %h %p\n", "the ProxyCommand to 192.0.2.9:2222"),
    ],
)
def test_the_way_is_named(line, words):
    assert describe_way(parse_ssh_options(SAID + line, "gpu1")) == words
