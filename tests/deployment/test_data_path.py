"""The ways to a server: their URLs, their ends, what they cost."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from autotune.deployment.data_path import (
    PathMeasurement,
    direct_url,
    explain_cost,
    measure_path,
    open_data_path,
    path_cost,
    summarise_path,
)
from autotune.deployment.process import find_listener
from autotune.deployment.ssh_options import fetch_ssh_options, parse_ssh_options
from autotune.deployment.tunnel import Tunnel
from autotune.errors import AuthError, ConnectionLostError, HostKeyError, SshError
from autotune.settings import DeploymentSettings
from tests.deployment.loopback_sshd import LoopbackSshd, make_key
from tests.deployment.processes import free_port, wait_until


class Answers(BaseHTTPRequestHandler):
    """Answers a GET with a word, a POST in three pieces."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (b"one", b"two", b"six"):
            self.wfile.write(b"3\r\n" + piece + b"\r\n")
            self.wfile.flush()
            threading.Event().wait(0.05)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory) -> Iterator[LoopbackSshd]:
    with LoopbackSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def remote(sshd: LoopbackSshd, data_path: str | None, *, config: str | None = None) -> DeploymentSettings:
    return DeploymentSettings(
        kind="systemd",
        unit="x.service",
        host="loopback",
        ssh_config=config or str(sshd.config),
        data_path=data_path,
    )


def fetch(url: str) -> bytes:
    with contextlib.closing(urllib.request.urlopen(url, timeout=5)) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("10.1.2.3", "10.1.2.3")],
)
def test_on_the_host_the_server_is_asked_where_it_listens(host, expected):
    with open_data_path(DeploymentSettings(), host, 30000) as way:
        assert (way.kind, way.url) == ("on-host", f"http://{expected}:30000")
        assert not way.ensure()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "192.0.2.9"),
        ("0.0.0.0", "192.0.2.9"),
        ("::", "192.0.2.9"),
        ("localhost", "192.0.2.9"),
        ("10.1.2.3", "10.1.2.3"),
        ("fd00::7", "[fd00::7]"),
        ("gpu1.example.org", "gpu1.example.org"),
    ],
)
def test_the_direct_way_leads_to_the_machine_unless_the_server_names_its_address(host, expected):
    options = parse_ssh_options("hostname 192.0.2.9\nuser u\nport 22\n", "gpu1")
    assert direct_url(options, host, 30000) == f"http://{expected}:30000"


def test_the_direct_way_opens_nothing(sshd, port):
    with open_data_path(remote(sshd, "direct"), "0.0.0.0", port) as way:
        assert (way.kind, way.url) == ("direct", f"http://127.0.0.1:{port}")
        assert fetch(way.url) == b"hello"


@pytest.mark.parametrize("data_path", ["tunnel", None])
def test_a_tunnel_carries_requests_and_is_gone_afterwards(sshd, port, data_path):
    with open_data_path(remote(sshd, data_path), "0.0.0.0", port) as way:
        assert way.kind == "tunnel"
        assert way.url != f"http://127.0.0.1:{port}"
        assert fetch(way.url) == b"hello"
        tunnel = way.tunnel
        assert tunnel is not None
    assert not tunnel.is_open
    assert find_listener("127.0.0.1", tunnel.port) is None


def test_a_tunnel_that_died_is_opened_again_on_the_same_port(sshd, port):
    with open_data_path(remote(sshd, "tunnel"), "127.0.0.1", port) as way:
        tunnel = way.tunnel
        assert tunnel is not None
        assert not way.ensure()
        url = way.url
        sshd.kill_sessions()
        wait_until(lambda: not tunnel.is_open)
        assert way.ensure()
        assert way.url == url
        assert fetch(url) == b"hello"


def test_a_tunnel_needs_no_server_behind_it_to_open(sshd):
    with open_data_path(remote(sshd, "tunnel"), "127.0.0.1", free_port()) as way, pytest.raises(OSError):
        fetch(way.url)


def test_a_tunnel_to_a_host_with_another_key_does_not_open(sshd, tmp_path):
    known = tmp_path / "known_hosts"
    known.touch()
    config = sshd.write_config("config-unknown", f"UserKnownHostsFile {known}", "StrictHostKeyChecking no")
    with (
        pytest.raises(HostKeyError, match=r"the tunnel to 127\.0\.0\.1 did not open"),
        open_data_path(remote(sshd, "tunnel", config=config), "127.0.0.1", 1),
    ):
        pass


def test_a_tunnel_to_a_host_that_lets_nobody_in_does_not_open(sshd, tmp_path):
    make_key(tmp_path / "stranger")
    config = tmp_path / "config"
    config.write_text(sshd.config.read_text().replace(f"{sshd.folder}/user_key", f"{tmp_path}/stranger"))
    with (
        pytest.raises(AuthError, match="Permission denied"),
        open_data_path(remote(sshd, "tunnel", config=str(config)), "127.0.0.1", 1),
    ):
        pass


def test_a_port_that_somebody_has_taken_meanwhile_is_not_mistaken_for_the_tunnel(sshd, port):
    tunnel = Tunnel(fetch_ssh_options("loopback", str(sshd.config)), "127.0.0.1", port)
    tunnel.port = port
    with pytest.raises(ConnectionLostError, match="did not open"):
        tunnel.ensure()
    assert not tunnel.is_open


TUNER = """
import sys, threading
from autotune.deployment.ssh_options import fetch_ssh_options
from autotune.deployment.tunnel import Tunnel
with Tunnel(fetch_ssh_options("loopback", sys.argv[1]), "127.0.0.1", int(sys.argv[2])) as tunnel:
    print(tunnel.port, flush=True)
    threading.Event().wait()
"""


def test_no_tunnel_outlives_a_killed_tuner(sshd, port):
    with subprocess.Popen(
        [sys.executable, "-c", TUNER, str(sshd.config), str(port)], stdout=subprocess.PIPE, text=True
    ) as tuner:
        assert tuner.stdout is not None
        local = int(tuner.stdout.readline())
        listener = find_listener("127.0.0.1", local)
        assert listener is not None
        os.kill(tuner.pid, signal.SIGKILL)
        tuner.wait()
        wait_until(lambda: find_listener("127.0.0.1", local) is None, 5)
        pid = listener.pid
        assert pid is not None
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 5)  # noqa: PTH110


def test_round_trips_and_chunks_are_measured_on_one_connection(port):
    measured = measure_path(f"http://127.0.0.1:{port}", count=10, generation=("/v1/chat/completions", b"{}"))
    assert measured.count == 10
    assert 0 < measured.round_trip_s < 1
    assert measured.jitter_s >= 0
    assert measured.chunks_per_s is not None
    assert 2 < measured.chunks_per_s < 21


def test_without_a_generation_the_chunk_rate_is_unknown(port):
    assert measure_path(f"http://127.0.0.1:{port}", count=3).chunks_per_s is None


def test_a_way_to_nowhere_is_an_error():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionLostError, match="no answer on this way"):
        measure_path(url)


def test_the_median_and_what_the_late_ones_cost_more():
    times = [0.010] * 94 + [0.030] * 6
    late = summarise_path(times)
    assert (late.round_trip_s, late.count) == (0.010, 100)
    assert late.jitter_s == pytest.approx(0.020)
    assert summarise_path([0.010] * 95 + [0.030] * 5) == PathMeasurement(0.010, 0.0, 100)
    assert summarise_path([0.001, 0.003]).round_trip_s == pytest.approx(0.002)
    assert summarise_path([0.004]) == PathMeasurement(0.004, 0.0, 1)


@pytest.mark.parametrize(("arrivals", "rate"), [([], None), ([1.0], None), ([1.0, 1.0], None), ([1.0, 1.5, 2.0], 2.0)])
def test_a_chunk_rate_needs_two_chunks_and_time_between(arrivals, rate):
    assert summarise_path([0.001], arrivals).chunks_per_s == rate


def test_a_way_may_cost_half_a_percent_of_a_request():
    near = PathMeasurement(0.004, 0.001, 40)
    assert path_cost(near, 1.0) == pytest.approx(0.005)
    assert explain_cost(near, 1.01) is None
    sentence = explain_cost(near, 0.5)
    assert sentence is not None
    assert "1.0% of a request of 0.5 s" in sentence
    assert "5.0 ms" not in sentence
    assert "4.0 ms" in sentence


def test_a_host_that_forbids_tunnels_is_named_at_the_next_look(tmp_path):
    with LoopbackSshd(tmp_path, "AllowTcpForwarding no") as server:
        options = fetch_ssh_options("loopback", server.write_config("quiet", "LogLevel ERROR"))
        with Tunnel(options, "127.0.0.1", free_port()) as tunnel:
            assert not tunnel.ensure()
            with socket.create_connection(("127.0.0.1", tunnel.port), timeout=5) as connection:
                assert connection.recv(1) == b""
            with pytest.raises(SshError, match="does not allow a tunnel") as caught:
                wait_until(tunnel.ensure)
            assert "AllowTcpForwarding" in (caught.value.hint or "")
