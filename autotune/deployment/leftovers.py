"""What did earlier tuners leave on this host, and is it in the way? Finished by the host's own restore where it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from autotune.clock import Clock
from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file, write_file
from autotune.deployment.host_record import RECORD_NAME, delete_record
from autotune.deployment.lease import RESTORE_SCRIPT, RUN_FOLDER, explain_busy, find_folder
from autotune.deployment.lease_holder import LeaseHolder, is_restoring, parse_holder, parse_lines, read_remaining_s
from autotune.deployment.unit_record import load_record
from autotune.errors import HostBusyError, HostError

_RESTORE_TIMEOUT_S: Final = 900.0
_LOOK_AGAIN_S: Final = 1.0

Interruptible = Callable[[], AbstractContextManager[None]]
"""Opens a block that a signal may end at once: nothing is left half done by that."""


def clear_way(
    host: Host,
    unit: str,
    token: str | None,
    clock: Clock,
    findings: list[str],
    interruptible: Interruptible = contextlib.nullcontext,
) -> LeaseHolder | None:
    """See to it that nobody else holds a lease on the host.

    A lease whose time is over, or whose tuner has died on this very machine, is ended by running the host's own restore
    at once. Only what this study's own dead tuner left is handed to the caller instead: its server may still be of use.

    Args:
        host: connected.
        unit: the service that is to be taken.
        token: of the record that lies with the study; ``None`` when there is none.
        clock: what is waited by.
        findings: what was found and done is added here.
        interruptible: lets a signal end a wait for the host; what the host has begun, it ends all the same.

    Returns:
        The lease of this study's dead tuner, to be taken over; ``None`` when the way is free.

    Raises:
        HostBusyError: another tuner is at work, or the host itself for longer than we wait.
        HostError: leftovers cannot be put back.
    """
    for folder in _list_leases(host):
        _wait_for_host(host, folder, clock, findings, interruptible)
        data = read_file(host, f"{folder}/lease")
        if data is None:
            continue
        holder = parse_holder(data)
        is_over = read_remaining_s(host, holder.timer) is None
        if not (holder.is_gone or is_over):
            raise explain_busy(host, holder.unit or unit)
        if folder == find_folder(unit) and holder.token == token:
            findings.append(f"an earlier tuner of this study has ended without restoring: {holder.holder}")
            return holder
        _finish(host, folder, holder, interruptible)
        if holder.is_gone and parse_lines(read_file(host, f"{folder}/restored") or b"").get("drop_in") != "left":
            forget_record(holder)
        why = "has ended" if holder.is_gone else "was not heard of any more"
        findings.append(f"another tuner {why} ({holder.holder}, study {holder.study}): {holder.unit} was put back")
    return None


def read_own_restore(host: Host, unit: str, token: str) -> str | None:
    """Return a sentence about what the host has put back by itself under a lease; ``None`` when it has not.

    Args:
        host: connected.
        unit: the service.
        token: of the lease.
    """
    data = read_file(host, f"{find_folder(unit)}/restored")
    lines = parse_lines(data or b"")
    if lines.get("token") != token:
        return None
    server = {
        "started": "the baseline was started",
        "kept": "the baseline was still running",
        "stopped": "the server was stopped, as none had run before",
        "failed": "the baseline could not be started",
    }.get(lines.get("server", ""), "nothing had been changed")
    left = ", and a changed drop-in was left" if lines.get("drop_in") == "left" else ""
    return f"the host put itself back at {lines.get('when', 'an unknown time')}, as its tuner was not heard of: {server}{left}"


def forget_record(holder: LeaseHolder) -> None:
    """Take away the record that a tuner of this machine has left with its study, as what it asks for has been done.

    It stays where it is of another lease, cannot be read, or is not ours to remove: a restore then finds nothing to do.

    Args:
        holder: of the lease that was ended; its tuner ran on this very machine.
    """
    folder = Path(holder.study)
    path = folder / RECORD_NAME
    if not folder.is_absolute():  # an apply names a study, and leaves no record with it
        return
    with contextlib.suppress(HostError, OSError):
        record = load_record(path)
        if record is not None and (record.token, record.unit) == (holder.plain_token, holder.unit):
            delete_record(path)


def _list_leases(host: Host) -> list[str]:
    """Return the folders of all units of the host that have a lease."""
    command = ("find", RUN_FOLDER, "-mindepth", "2", "-maxdepth", "2", "-name", "lease")
    return sorted(str(Path(line).parent) for line in host.run(command, is_idempotent=True).text.splitlines())


def _wait_for_host(host: Host, folder: str, clock: Clock, findings: list[str], interruptible: Interruptible) -> None:
    """Wait while the host itself is putting a service back."""
    started = clock.monotonic()
    while (data := read_file(host, f"{folder}/lease")) is not None:
        holder = parse_holder(data)
        if not is_restoring(host, holder.timer):
            return
        if clock.monotonic() == started:
            findings.append(f"the host was putting {holder.unit} back just then, as its tuner was not heard of")
        if clock.monotonic() - started > _RESTORE_TIMEOUT_S:
            raise HostBusyError(
                f"the host has been putting {holder.unit} back for {_RESTORE_TIMEOUT_S:.0f} s",
                where=host.name,
                hint=f"see journalctl -u {holder.timer.removesuffix('.timer')} there",
            )
        with interruptible():
            clock.sleep(_LOOK_AGAIN_S)


def _finish(host: Host, folder: str, holder: LeaseHolder, interruptible: Interruptible) -> None:
    """Run the host's own restore now, instead of when its timer would."""
    script = f"{folder}/restore-now.sh"
    write_file(host.run_as_root, script, RESTORE_SCRIPT.read_bytes(), 0o755)
    command = ("systemd-run", "--quiet", "--collect", "--wait", "--service-type=oneshot", "--no-ask-password")
    name = f"{holder.timer.removesuffix('.timer')}-now"
    with interruptible():
        output = host.run_as_root(
            (
                *command,
                f"--unit={name}",
                "--property=TimeoutStartSec=infinity",
                "/bin/sh",
                script,
                folder,
                holder.plain_token,
            ),
            timeout_s=_RESTORE_TIMEOUT_S,
        )
    if output.exit_code != 0:
        raise HostError(
            f"what the tuner {holder.holder} left on {holder.unit} cannot be put back: {output.complaint}",
            where=host.name,
            hint=f"see journalctl -u {name} there; by hand: remove the trial's drop-in below /run/systemd/system, "
            f"systemctl daemon-reload, systemctl restart {holder.unit}, rm -r {folder}",
        )
    host.run_as_root(("systemctl", "stop", "--", holder.timer))
