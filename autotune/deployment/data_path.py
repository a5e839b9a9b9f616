"""How requests reach the server, and what that costs: straight to its address, through a tunnel, or on its own machine."""

from __future__ import annotations

import contextlib
import http.client
import math
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autotune.deployment.ssh_options import SshOptions, fetch_ssh_options
from autotune.deployment.tunnel import Tunnel
from autotune.errors import ConnectionLostError
from autotune.settings import DeploymentSettings

MOST_COST: Final = 0.005
"""Largest share of a request's time that the way to the server may cost."""

ENOUGH: Final = 400
"""Round trips that are measured where they are quick: their median is then known to a few per cent."""

_FEWEST: Final = 8
"""With fewer the median may lie outside all of them."""
_PATIENCE_S: Final = 5.0
_TAILS_IN: Final = 200
"""Each tail of a 99 % interval is one in so many."""
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


class PathVerdict(Enum):
    """What the way to a server means for what is measured over it."""

    FINE = "fine"
    """It costs no more than is allowed, beyond chance."""
    COSTLY = "costly"
    """It costs more than is allowed, beyond chance."""
    UNDECIDED = "undecided"
    """The round trips differ so much that either may be true."""


@dataclass(frozen=True, slots=True)
class PathMeasurement:
    """What the way to a server costs.

    Attributes:
        round_trip_s: median time of a request that the server answers at once, its answering included.
        low_s: lower bound of that median, of its 99 % interval.
        high_s: upper bound; ``None`` with so few round trips that the median may lie above all of them.
        count: round trips measured.
        chunks_per_s: pieces a streamed answer came in, per second between the first and the last; ``None`` when no
            generation was asked for, or fewer than two came.
    """

    round_trip_s: float
    low_s: float
    high_s: float | None
    count: int
    chunks_per_s: float | None = None


def measure_path(
    url: str,
    *,
    path: str = "/v1/models",
    count: int = ENOUGH,
    generation: tuple[str, bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
    patience_s: float = _PATIENCE_S,
) -> PathMeasurement:
    """Measure round trips on one kept connection, as the load has it, and the chunk rate of one answer.

    Args:
        url: base URL.
        path: of a cheap GET; any status is an answer.
        count: most round trips, after one that opens the connection and does not count.
        generation: path and JSON body of a streaming request; ``None`` sends none.
        headers: sent along, as a key.
        timeout_s: longest wait for one answer or one chunk.
        patience_s: no more round trips than the fewest that give an interval are begun after so long.

    Raises:
        ConnectionLostError: the server cannot be reached this way.
    """
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        _time_get(connection, path, headers or {})
        until_s = time.perf_counter() + patience_s
        times_s: list[float] = []
        while len(times_s) < count and (len(times_s) < _FEWEST or time.perf_counter() < until_s):
            times_s.append(_time_get(connection, path, headers or {}))
        arrivals_s = [] if generation is None else _time_chunks(connection, *generation, headers or {})
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionLostError(f"no answer on this way: {str(error) or type(error).__name__}", where=url) from None
    finally:
        connection.close()
    return summarise_path(times_s, arrivals_s)


def summarise_path(times_s: Sequence[float], arrivals_s: Sequence[float] = ()) -> PathMeasurement:
    """Turn times of round trips (at least one) and arrivals of chunks (in order, any origin) into the record.

    The median, because a busy machine makes some round trips late whatever the way is like; how late a cell was read
    while it was measured is seen there. Its interval is that of order statistics, which assumes no distribution
    (David and Nagaraja, Order Statistics, 3rd edition, chapter 7).
    """
    ordered = sorted(times_s)
    count = len(ordered)
    median_s = ordered[count // 2] if count % 2 else sum(ordered[count // 2 - 1 :][:2]) / 2
    outside = _count_outside(count)
    low_s, high_s = (0.0, None) if outside is None else (ordered[outside], ordered[-1 - outside])
    span_s = arrivals_s[-1] - arrivals_s[0] if len(arrivals_s) > 1 else 0.0
    rate = (len(arrivals_s) - 1) / span_s if span_s > 0 else None
    return PathMeasurement(median_s, low_s, high_s, count, rate)


def path_cost(round_trip_s: float, request_s: float) -> float:
    """Return the share of a request's time that the way to the server may cost: a request waits for one round trip.

    All chunks after the first are in flight together. It is a bound from above, because the round trip includes the
    server's own work for a cheap answer.

    Args:
        round_trip_s: how long one takes.
        request_s: how long the shortest request of the workload takes, more than 0.
    """
    return round_trip_s / request_s


def judge_cost(measurement: PathMeasurement, request_s: float) -> PathVerdict:
    """Compare both bounds of what a way costs with :data:`MOST_COST`.

    Args:
        measurement: of the way.
        request_s: how long the shortest request of the workload takes, more than 0.
    """
    if path_cost(measurement.low_s, request_s) > MOST_COST:
        return PathVerdict.COSTLY
    if measurement.high_s is not None and path_cost(measurement.high_s, request_s) <= MOST_COST:
        return PathVerdict.FINE
    return PathVerdict.UNDECIDED


def _count_outside(count: int) -> int | None:
    """Return how many of the smallest, and of the largest, lie outside the interval of a median.

    The most that a fair coin, thrown ``count`` times, shows heads no more often than with half the error's probability;
    ``None`` when even none is too many.
    """
    heads, ways = 0, 1
    while ways * _TAILS_IN <= 2**count:
        heads += 1
        ways += math.comb(count, heads)
    return heads - 1 if heads else None


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
