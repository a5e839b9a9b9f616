"""A service before its first change and what of ours runs there: on its host and with the study, for any later command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from autotune.deployment.host_record import write_durably
from autotune.deployment.systemd_unit import trial_drop_in_path
from autotune.errors import HostError
from autotune.servers.base import LaunchSpec

_KIND: Final = "systemd"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """What has to be known to put a service back.

    Attributes:
        host: name of its host.
        machine: id of the host's start; another one means that it was started anew and ``/run`` is empty.
        unit: name of the service.
        study: folder of the study that works on it.
        token: of the lease under which the last change was made.
        was_up: whether it ran before us.
        made_folder: whether its drop-in folder in ``/run`` is ours.
        baselines: invocations that ran the unit's own command.
        is_stopped: whether a server was stopped since, so that one has to be started, and checked, in the end.
        drop_in: text of the drop-in written last; empty when none was.
        launch: what was started last; ``None`` when nothing was.
        invocation: its invocation; empty while it is not known.
        before: invocation of the unit when that start was asked for.
        host_id: the host's ``/etc/machine-id``; empty when unknown.
        dependants: units that ran and that every stop of the service stops too.
        has_hook: whether the hook that logs drafts may lie on the host.
    """

    host: str
    machine: str
    unit: str
    study: str
    token: str
    was_up: bool
    made_folder: bool
    baselines: tuple[str, ...]
    is_stopped: bool = False
    drop_in: str = ""
    launch: LaunchSpec | None = None
    invocation: str = ""
    before: str = ""
    host_id: str = ""
    dependants: tuple[str, ...] = ()
    has_hook: bool = False

    def facts(self) -> bytes:
        """Render what the host's own restore has to know, as lines of a shell's ``key=value``."""
        lines = {
            "unit": self.unit,
            "was_up": _yes(self.was_up),
            "made_folder": _yes(self.made_folder),
            "drop_in": trial_drop_in_path(self.unit),
            "invocations": " ".join(self.baselines),
            "dependants": " ".join(self.dependants),
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items()).encode()


def render_record(record: UnitRecord) -> bytes:
    """Render a record; variables of the study are in it, so its file is for its owner alone."""
    return (json.dumps({"version": _VERSION, "kind": _KIND, **asdict(record)}, indent=1) + "\n").encode()


def parse_record(data: bytes, where: str) -> UnitRecord:
    """Read a record.

    Raises:
        HostError: it is not one.
    """
    try:
        fields = json.loads(data)
        if (fields["kind"], fields["version"]) != (_KIND, _VERSION):
            raise _unreadable(where, f"it is of kind {fields['kind']!r}, version {fields['version']!r}")
        return UnitRecord(
            host=str(fields["host"]),
            machine=str(fields["machine"]),
            unit=str(fields["unit"]),
            study=str(fields["study"]),
            token=str(fields["token"]),
            was_up=bool(fields["was_up"]),
            made_folder=bool(fields["made_folder"]),
            baselines=tuple(map(str, fields["baselines"])),
            is_stopped=bool(fields["is_stopped"]),
            drop_in=str(fields["drop_in"]),
            launch=_parse_launch(fields["launch"]),
            invocation=str(fields["invocation"]),
            before=str(fields["before"]),
            host_id=str(fields.get("host_id", "")),  # records of earlier versions have none
            dependants=tuple(map(str, fields.get("dependants", ()))),
            has_hook=bool(fields.get("has_hook", False)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(where, f"{type(error).__name__}: {error}") from error


def load_record(path: Path) -> UnitRecord | None:
    """Read the record that lies with the study; ``None`` when there is none: then nothing is left to put back.

    Raises:
        HostError: the file is there but is no record of a service.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(str(path), str(error)) from error
    return parse_record(data, str(path))


def save_record(path: Path, record: UnitRecord) -> None:
    """Write the record so that a crash leaves either the old one or the new one."""
    write_durably(path, render_record(record))


def _parse_launch(fields: Mapping[str, Any] | None) -> LaunchSpec | None:
    if fields is None:
        return None
    return LaunchSpec(
        tuple(fields["command"]),
        dict(fields["environment"]),
        tuple(fields["arguments"]),
        loads_hook=bool(fields.get("loads_hook", False)),
    )


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _unreadable(where: str, why: str) -> HostError:
    return HostError(
        f"the record of what ran on the host cannot be read: {why}",
        where=where,
        hint="see that the service runs as it should (systemctl cat, systemctl status), then delete this file",
    )
