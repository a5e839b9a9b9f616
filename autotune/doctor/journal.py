"""Does the journal keep what the server says, can it be read, and how long did the server that runs take to load?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autotune.deployment.host import Host
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, ok, problem, skipped, warning
from autotune.doctor.service import Properties, ServiceFacts
from autotune.errors import HostError, UnitStateError
from autotune.settings import StudySettings

READY_LINE: Final = "The server is fired up and ready to roll!"

_TIMEOUT_S = 30.0
_DEFAULT_LIMITS: Final = {"RateLimitIntervalSec": "30s", "RateLimitBurst": "10000", "Storage": "auto"}
_FEWEST_LINES_PER_S: Final = 100.0
_LONGEST_LOAD_S: Final = 7200.0
_UNITS_S: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_INFO: Final = 6


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many lines in an interval are kept of a service; an interval or a number of 0 is no limit."""

    interval_s: float
    lines: int
    source: str


def examine_journal(exam: Examination, host: Host, settings: StudySettings, service: ServiceFacts) -> float | None:
    """Look at the journal; return the load time of the server that runs, in seconds, where it is known."""
    shown = service.properties
    load_s = None
    if shown is None or shown["LoadState"] != "loaded":
        exam.note("journal", skipped("needs unit"))
    else:
        known = shown
        lines = exam.ask("journal", lambda: count_lines(host, service), lambda count: judge_journal(known, count))
        if lines and service.process is not None:
            load_s = find_load_s(host, service, settings.server.ready_timeout_s)
    configuration = exam.ask(
        "journal limits",
        lambda: read_configuration(host),
        lambda found: judge_limits(find_limit(found, shown or {})),
    )
    exam.judge("journal kept", configuration, lambda found: judge_kept(found, host), needs="journal limits")
    return load_s


def count_lines(host: Host, service: ServiceFacts) -> int | None:
    """Return how many of the last ten lines of the present start are in the journal; ``None`` when it does not run.

    Raises:
        PermissionDenied: sudo does not allow journalctl.
        HostError: the journal cannot be read.
    """
    invocation = "" if service.state is None else service.state.invocation_id
    if service.state is None or not service.state.is_up or not invocation:
        return None
    command = (
        "journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=10", f"_SYSTEMD_INVOCATION_ID={invocation}"
    )  # fmt: skip
    output = host.run_as_root(command, timeout_s=_TIMEOUT_S, is_idempotent=True)
    if output.exit_code != 0 and output.stderr.strip():
        raise HostError(f"the journal cannot be read: {output.complaint}", where=host.name)
    return len(output.text.splitlines())


def judge_journal(shown: Properties, lines: int | None) -> Judgement:
    """Say whether the log of a start can be had."""
    outputs = {shown["StandardOutput"], shown["StandardError"]} - {"inherit"}
    elsewhere = sorted(output for output in outputs if not output.startswith(("journal", "kmsg", "syslog")))
    if elsewhere:
        return problem(
            f"the service logs to {', '.join(elsewhere)}, not to the journal",
            "use StandardOutput=journal: without the log nobody can say why a boot failed",
            UnitStateError,
        )
    if shown["LogNamespace"]:
        return problem(
            f"LogNamespace={shown['LogNamespace']} keeps the log in a journal of its own",
            "take LogNamespace= out of the unit",
            UnitStateError,
        )
    level = shown["LogLevelMax"]
    if level.isdecimal() and int(level) < _INFO:
        return warning(f"LogLevelMax={level} hides lines of the server", "take LogLevelMax= out of the unit")
    if lines is None:
        return ok("it can be read; the service does not run, so no line was looked for")
    if not lines:
        return warning(
            "it holds no line of the server that runs",
            "they may be gone already, or the server writes to a file: the log of a trial would be empty",
        )
    return ok("it holds the lines of the server that runs")


def read_configuration(host: Host) -> Mapping[str, str]:
    """Return the settings of journald that are not its defaults.

    Raises:
        HostError: the host does not say.
    """
    command = ("systemd-analyze", "cat-config", "systemd/journald.conf")
    output = host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True)
    if output.exit_code != 0:
        raise HostError(f"journald's settings cannot be read: {output.complaint}", where=host.name)
    return parse_configuration(output.text)


def parse_configuration(text: str) -> Mapping[str, str]:
    r"""Read all files of journald, later ones replacing earlier ones.

    >>> parse_configuration("[Journal]\n#RateLimitBurst=5\nRateLimitBurst=100\nRateLimitBurst=200\n")
    {'RateLimitBurst': '200'}
    """
    pairs = (line.strip().partition("=") for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return {key.strip(): value.strip() for key, separator, value in pairs if separator}


def find_limit(configuration: Mapping[str, str], shown: Properties) -> RateLimit:
    """Return the limit that counts: the unit's own where it has one, else journald's."""
    burst = shown.get("LogRateLimitBurst", "")
    interval_s = parse_span_s(shown.get("LogRateLimitIntervalUSec", ""))
    if burst.isdecimal() and int(burst) > 0 and interval_s:
        return RateLimit(interval_s, int(burst), "of the unit")
    known = {**_DEFAULT_LIMITS, **{key: value for key, value in configuration.items() if value}}
    lines = known["RateLimitBurst"]
    span_s = parse_span_s(known["RateLimitIntervalSec"])
    return RateLimit(
        30.0 if span_s is None else span_s,
        int(lines) if lines.isdecimal() else 10000,
        "of journald.conf" if {"RateLimitBurst", "RateLimitIntervalSec"} & configuration.keys() else "by default",
    )


def parse_span_s(text: str) -> float | None:
    """Read a time span of systemd; ``None`` when it is none.

    >>> parse_span_s("1min 30s"), parse_span_s("0"), parse_span_s("often")
    (90.0, 0.0, None)
    """
    parts = re.findall(r"([0-9.]+)\s*([a-z]*)\s*", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        return None
    if any(unit not in _UNITS_S for _, unit in parts):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def judge_limits(limit: RateLimit) -> Judgement:
    """Say whether lines of a loading server would be dropped."""
    if limit.interval_s == 0 or limit.lines == 0:
        return ok(f"no limit ({limit.source})")
    said = f"{limit.lines} lines in {limit.interval_s:g} s ({limit.source})"
    if limit.lines / limit.interval_s < _FEWEST_LINES_PER_S:
        return warning(
            f"{said}: lines of a server that writes many while it loads are dropped",
            "set LogRateLimitBurst=0 in the unit, or raise RateLimitBurst= in journald.conf",
        )
    return ok(said)


def judge_kept(configuration: Mapping[str, str], host: Host) -> Judgement:
    """Say whether the journal survives a reboot."""
    storage = configuration.get("Storage", "auto")
    has_folder = host.run(("test", "-d", "/var/log/journal"), timeout_s=_TIMEOUT_S, is_idempotent=True).exit_code == 0
    if storage == "none":
        return problem("Storage=none: journald keeps nothing", "set Storage=persistent in journald.conf")
    if storage == "volatile" or (storage == "auto" and not has_folder):
        return warning("the journal is lost when the host reboots", "mkdir /var/log/journal, or Storage=persistent")
    return ok("the journal survives a reboot")


def find_load_s(host: Host, service: ServiceFacts, ready_timeout_s: float) -> float | None:
    """Return how long the server that runs took from its start to its ready line; ``None`` when that is not known."""
    if service.process is None or service.state is None:
        return None
    started_at = service.process.started_at
    until = started_at + max(2 * ready_timeout_s, _LONGEST_LOAD_S)
    command = (
        "journalctl", "--quiet", "--no-pager", "--output=short-unix", f"--since=@{started_at - 2:.0f}",
        f"--until=@{until:.0f}", f"_SYSTEMD_INVOCATION_ID={service.state.invocation_id}",
    )  # fmt: skip
    output = host.run_as_root(command, timeout_s=_TIMEOUT_S, is_idempotent=True)
    return find_ready_after_s(output.text, started_at)


def find_ready_after_s(text: str, started_at: float) -> float | None:
    r"""Return the seconds between a start and the ready line of lines as ``journalctl --output=short-unix`` prints them.

    >>> find_ready_after_s("100.5 h p[1]: loading\n715.25 h p[1]: [t] The server is fired up and ready to roll!\n", 100.0)
    615.25
    """
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        if READY_LINE in rest and re.fullmatch(r"[0-9]+\.[0-9]+", stamp):
            return max(float(stamp) - started_at, 0.0)
    return None
