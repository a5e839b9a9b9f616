"""What was found on the host before the first change, on disk, so that any later command can put it back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from autotune.deployment.process import Identity
from autotune.errors import HostError

RECORD_NAME: Final = "host.json"
"""In the folder of a study while something is left to put back, whatever the kind of its deployment."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server that ran before we came, with all that is needed to run it again.

    Attributes:
        identity: its process.
        command: argument vector.
        environment: all its variables; secrets may be among them, so the file is readable by its owner alone.
        cwd: its working folder.
        umask: its file mode mask; ``None`` when unknown.
        output: file that gets its standard output.
        errors: file that gets its standard error.
    """

    identity: Identity
    command: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    umask: int | None
    output: str
    errors: str


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The host before the first change, and what of ours may run on it.

    Attributes:
        machine: the kernel's id of this start of the machine; process ids mean nothing under another one.
        found: the server that ran; ``None`` when there was none.
        guard: the guard of our server; ``None`` when none was started.
        marker: value of the variable that marks every process of our server; ``None`` when none was started.
    """

    machine: str
    found: FoundServer | None
    guard: Identity | None = None
    marker: str | None = None


def read_machine() -> str:
    """Return the kernel's id of this start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def save_record(path: Path, record: HostRecord) -> None:
    """Write the record so that a crash leaves either the old one or the new one."""
    text = json.dumps({"version": _VERSION, **asdict(record)}, indent=1)
    write_durably(path, text.encode("utf-8", errors="surrogateescape"))


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file that only its owner may read so that a crash leaves either the old bytes or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def load_record(path: Path) -> HostRecord | None:
    """Read the record, or ``None`` when there is none: then nothing is left to restore.

    Raises:
        HostError: the file is there but is not a record.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    try:
        if data["version"] != _VERSION:
            raise _unreadable(path, f"its version is {data['version']}, not {_VERSION}")
        return HostRecord(data["machine"], _parse_found(data["found"]), _parse_identity(data["guard"]), data["marker"])
    except (KeyError, TypeError) as error:
        raise _unreadable(path, f"something is missing: {error}") from error


def delete_record(path: Path) -> None:
    """Remove the record: nothing is left to restore."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        _sync_folder(path.parent)


def _parse_found(data: Any) -> FoundServer | None:
    if data is None:
        return None
    return FoundServer(
        identity=Identity(**data["identity"]),
        command=tuple(data["command"]),
        environment=dict(data["environment"]),
        cwd=data["cwd"],
        umask=data["umask"],
        output=data["output"],
        errors=data["errors"],
    )


def _parse_identity(data: Any) -> Identity | None:
    return None if data is None else Identity(**data)


def _unreadable(path: Path, why: str) -> HostError:
    return HostError(
        f"the record of what ran on this host cannot be read: {why}",
        where=str(path),
        hint="start the server by hand as it should run, then delete this file",
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
