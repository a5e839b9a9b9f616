"""The ways to a server: their URLs, their ends, what they cost."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.deployment.data_path import (
    MOST_COST,
    PathMeasurement,
    PathVerdict,
    direct_url,
    judge_cost,
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
    assert measured.high_s is not None
    assert measured.low_s <= measured.round_trip_s <= measured.high_s
    assert measured.chunks_per_s is not None
    assert 2 < measured.chunks_per_s < 100  # 20, unless this machine was late to read one of the three


def test_without_a_generation_the_chunk_rate_is_unknown(port):
    assert measure_path(f"http://127.0.0.1:{port}", count=3).chunks_per_s is None


def test_a_way_to_nowhere_is_an_error():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionLostError, match="no answer on this way"):
        measure_path(url)


def test_on_a_slow_way_no_more_is_measured_than_an_interval_needs(port):
    measured = measure_path(f"http://127.0.0.1:{port}", patience_s=0.0)

    assert measured.count == 8
    assert measured.high_s is not None


def test_the_median_lies_in_an_interval_of_order_statistics():
    assert summarise_path([0.001, 0.003]) == PathMeasurement(0.002, 0.0, None, 2)
    assert summarise_path([0.004] * 7) == PathMeasurement(0.004, 0.0, None, 7)
    assert summarise_path([float(n) for n in range(1, 9)]) == PathMeasurement(4.5, 1.0, 8.0, 8)
    # P(X <= 11) of a binomial with n = 40, p = 1/2 is 0.0032, P(X <= 12) is 0.0083
    assert summarise_path([float(n) for n in range(40)]) == PathMeasurement(19.5, 12.0 - 1.0, 28.0, 40)
    assert summarise_path([0.001] * 4000).high_s == 0.001


@given(st.integers(8, 60), st.randoms(use_true_random=False))
def test_the_order_of_round_trips_does_not_matter(count, random):
    times = [random.random() for _ in range(count)]
    measured = summarise_path(times)

    assert measured == summarise_path(random.sample(times, count))
    assert measured.high_s is not None
    assert measured.low_s <= measured.round_trip_s <= measured.high_s


def test_the_interval_holds_the_median_as_often_as_it_says():
    random = Random(7)  # noqa: S311  # a sample, no secret
    missed = 0
    for _ in range(2000):
        measured = summarise_path([random.expovariate(1.0) for _ in range(40)])
        assert measured.high_s is not None
        missed += not measured.low_s <= math.log(2) <= measured.high_s

    assert 0 < missed <= 30


def test_a_busy_machine_that_makes_some_round_trips_late_does_not_make_the_way_slow():
    times = [0.001] * 340 + [0.080] * 60  # their 95th percentile alone would cost 1.6 % of a request

    assert judge_cost(summarise_path(times), 5.0) is PathVerdict.FINE


@pytest.mark.parametrize("late", range(0, 41, 4))
def test_verdicts_go_from_fine_over_undecided_to_costly(late):
    verdict = judge_cost(summarise_path([0.001] * (40 - late) + [0.1] * late), 5.0)

    assert verdict is (PathVerdict.FINE if late <= 11 else PathVerdict.COSTLY if late >= 29 else PathVerdict.UNDECIDED)


@pytest.mark.parametrize(("arrivals", "rate"), [([], None), ([1.0], None), ([1.0, 1.0], None), ([1.0, 1.5, 2.0], 2.0)])
def test_a_chunk_rate_needs_two_chunks_and_time_between(arrivals, rate):
    assert summarise_path([0.001], arrivals).chunks_per_s == rate


def test_a_way_may_cost_half_a_percent_of_a_request():
    assert MOST_COST == 0.005
    assert path_cost(0.005, 1.0) == pytest.approx(0.005)
    assert judge_cost(PathMeasurement(0.004, 0.004, 0.005, 40), 1.0) is PathVerdict.FINE
    assert judge_cost(PathMeasurement(0.004, 0.004, 0.006, 40), 1.0) is PathVerdict.UNDECIDED
    assert judge_cost(PathMeasurement(0.006, 0.005, 0.008, 40), 1.0) is PathVerdict.UNDECIDED
    assert judge_cost(PathMeasurement(0.007, 0.006, 0.008, 40), 1.0) is PathVerdict.COSTLY
    assert judge_cost(PathMeasurement(0.001, 0.0, None, 3), 1.0) is PathVerdict.UNDECIDED


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
