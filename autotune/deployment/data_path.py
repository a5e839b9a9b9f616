"""How requests reach the server, and what that costs: straight to its address, through a tunnel, or on its own machine."""

from __future__ import annotations

import contextlib
import http.client
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autotune.deployment.ssh_options import SshOptions, fetch_ssh_options
from autotune.deployment.tunnel import Tunnel
from autotune.errors import ConnectionLostError
from autotune.settings import DeploymentSettings

MOST_COST: Final = 0.005
"""Largest share of a request's time that the way to the server may cost."""

_LONGEST_ANSWER_BYTES: Final = 2**20
_LONGEST_STREAM_S: Final = 60.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ANY: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared, not bound


@dataclass(frozen=True, slots=True)
class DataPath:
    """A way to the server that is open.

    Attributes:
        kind: ``direct``, ``tunnel`` or ``on-host``.
        url: base URL for requests; it stays the same when a tunnel is opened again.
        tunnel: the tunnel, if it is one.
    """

    kind: str
    url: str
    tunnel: Tunnel | None = None

    def ensure(self) -> bool:
        """Open the way again if it was lost; return whether it was.

        Raises:
            SshError: it cannot be opened.
        """
        return self.tunnel is not None and self.tunnel.ensure()


@contextlib.contextmanager
def open_data_path(deployment: DeploymentSettings, host: str, port: int) -> Iterator[DataPath]:
    """Open the way that a study names, and close it in the end.

    Args:
        deployment: where the server runs, and the way.
        host: address the server listens on.
        port: its port.

    Raises:
        SshError: there is no way to the machine.
    """
    near = "127.0.0.1" if host in _ANY else host
    if deployment.host is None:
        yield DataPath("on-host", render_url(near, port))
        return
    options = fetch_ssh_options(deployment.host, deployment.ssh_config)
    if deployment.data_path == "direct":
        yield DataPath("direct", direct_url(options, host, port))
        return
    with Tunnel(options, near, port) as tunnel:
        yield DataPath("tunnel", render_url("127.0.0.1", tunnel.port), tunnel)


def direct_url(options: SshOptions, host: str, port: int) -> str:
    """Return the URL of a server on another machine: its own address where it names one, else the machine's.

    Args:
        options: how ssh reaches the machine.
        host: address the server listens on; all addresses and loopback ones name no machine.
        port: its port.
    """
    return render_url(options.hostname if host in _ANY | _LOOPBACK else host, port)


def render_url(host: str, port: int) -> str:
    """Return a base URL; an IPv6 address gets its brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class PathMeasurement:
    """What the way to a server costs.

    Attributes:
        round_trip_s: median time of a request that the server answers at once, its answering included.
        jitter_s: how much longer the 95th of 100 takes.
        count: round trips measured.
        chunks_per_s: pieces a streamed answer came in, per second between the first and the last; ``None`` when no
            generation was asked for, or fewer than two came.
    """

    round_trip_s: float
    jitter_s: float
    count: int
    chunks_per_s: float | None = None


def measure_path(
    url: str,
    *,
    path: str = "/v1/models",
    count: int = 40,
    generation: tuple[str, bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> PathMeasurement:
    """Measure round trips on one kept connection, as the load has it, and the chunk rate of one answer.

    Args:
        url: base URL.
        path: of a cheap GET; any status is an answer.
        count: round trips, after one that opens the connection and does not count.
        generation: path and JSON body of a streaming request; ``None`` sends none.
        headers: sent along, as a key.
        timeout_s: longest wait for one answer or one chunk.

    Raises:
        ConnectionLostError: the server cannot be reached this way.
    """
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        times_s = [_time_get(connection, path, headers or {}) for _ in range(count + 1)][1:]
        arrivals_s = [] if generation is None else _time_chunks(connection, *generation, headers or {})
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionLostError(f"no answer on this way: {str(error) or type(error).__name__}", where=url) from None
    finally:
        connection.close()
    return summarise_path(times_s, arrivals_s)


def summarise_path(times_s: Sequence[float], arrivals_s: Sequence[float] = ()) -> PathMeasurement:
    """Turn times of round trips (at least one) and arrivals of chunks (in order, any origin) into the record."""
    ordered = sorted(times_s)
    median_s = ordered[len(ordered) // 2] if len(ordered) % 2 else sum(ordered[len(ordered) // 2 - 1 :][:2]) / 2
    late_s = ordered[max(-(-95 * len(ordered) // 100) - 1, 0)]
    span_s = arrivals_s[-1] - arrivals_s[0] if len(arrivals_s) > 1 else 0.0
    rate = (len(arrivals_s) - 1) / span_s if span_s > 0 else None
    return PathMeasurement(median_s, max(late_s - median_s, 0.0), len(ordered), rate)


def path_cost(measurement: PathMeasurement, request_s: float) -> float:
    """Return the share of a request's time that the way to the server may have cost.

    ``(round_trip_s + jitter_s) / request_s``: a request waits one round trip for its first token, and its last one
    may come late by the jitter; all chunks between are in flight together. It is a bound from above, because the round
    trip includes the server's own work for a cheap answer. A study is refused above :data:`MOST_COST`.

    Args:
        measurement: of the way.
        request_s: how long the shortest request of the workload takes, more than 0.
    """
    return (measurement.round_trip_s + measurement.jitter_s) / request_s


def explain_cost(measurement: PathMeasurement, request_s: float) -> str | None:
    """Say why a way is too slow for measuring; ``None`` when it is not."""
    cost = path_cost(measurement, request_s)
    if cost <= MOST_COST:
        return None
    return (
        f"the way to the server costs up to {cost:.1%} of a request of {request_s:.3g} s: round trip "
        f"{measurement.round_trip_s * 1000:.1f} ms, jitter {measurement.jitter_s * 1000:.1f} ms "
        f"({measurement.count} round trips); at most {MOST_COST:.1%} is allowed: run the tuner on the server's machine"
    )


def _time_get(connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> float:
    started = time.perf_counter()
    connection.request("GET", path, headers=dict(headers))
    response = connection.getresponse()
    if len(response.read(_LONGEST_ANSWER_BYTES + 1)) > _LONGEST_ANSWER_BYTES:
        raise http.client.HTTPException(f"{path} answers more than {_LONGEST_ANSWER_BYTES} bytes")
    return time.perf_counter() - started


def _time_chunks(
    connection: http.client.HTTPConnection, path: str, body: bytes, headers: Mapping[str, str]
) -> list[float]:
    """Return when each piece of a streamed answer came; one that does not end is left after a minute."""
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    arrivals: list[float] = []
    until = time.perf_counter() + _LONGEST_STREAM_S
    while response.read1(2**16) and time.perf_counter() < until:
        arrivals.append(time.perf_counter())  # the time of the reading, not of the list
    return arrivals
