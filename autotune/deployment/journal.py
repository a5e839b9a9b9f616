"""What did one start of a service write to the journal? Read piece by piece, every line once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from autotune.deployment.host import Host
from autotune.errors import HostError

_STOPPING: Final = "de5b426a63be47a7b6ac3eaac82e2f6f"
"""``SD_MESSAGE_UNIT_STOPPING`` of systemd's catalogue: a stop of the unit was asked for."""
_READ_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class JournalPiece:
    """What one look at the journal has given.

    Attributes:
        lines: text lines, oldest first; undecodable bytes are replaced, a carriage return at the end is dropped.
        cursor: where to go on; ``None`` when there was no entry.
    """

    lines: tuple[str, ...]
    cursor: str | None


def parse_entries(data: bytes) -> JournalPiece:
    r"""Read what ``journalctl --output=json`` prints; an unfinished last line is left for the next look.

    Messages that are no plain text come as arrays of bytes, or of several values; both are read.

    >>> parse_entries(b'{"MESSAGE":[27,91,51,50,109,111,107,27,91,48,109,13],"__CURSOR":"s=1"}\n{"MESS').lines
    ('\x1b[32mok\x1b[0m',)

    Raises:
        HostError: a whole line is not an entry.
    """
    whole, _, _ = data.rpartition(b"\n")
    lines: list[str] = []
    cursor: str | None = None
    for line in filter(None, whole.split(b"\n")):
        try:
            entry = json.loads(line)
            lines += _decode_message(entry.get("MESSAGE"))
            cursor = str(entry["__CURSOR"])
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            shown = line[:100].decode("utf-8", errors="replace")
            raise HostError(f"journalctl printed something else than an entry: {shown!r}") from error
    return JournalPiece(tuple(lines), cursor)


class InvocationJournal:
    """The lines of one start of a unit, those of its worker processes included, and of no other start.

    Args:
        host: connected.
        invocation_id: of the start.
    """

    def __init__(self, host: Host, invocation_id: str) -> None:
        self._host = host
        self._invocation_id = invocation_id
        self._cursor: str | None = None

    def read_new(self) -> tuple[str, ...]:
        """Return the lines since the last call; all of them the first time.

        Raises:
            SshError: the host cannot be asked.
            PermissionDenied: sudo does not allow journalctl.
            HostError: the journal cannot be read.
        """
        lines: list[str] = []
        while True:
            output = self._host.run_as_root(self._command(), timeout_s=_READ_TIMEOUT_S, is_idempotent=True)
            piece = parse_entries(output.stdout)
            if output.exit_code != 0 and piece.cursor is None and output.stderr.strip():
                raise HostError(f"the journal cannot be read: {output.complaint}", where=self._host.name)
            lines += piece.lines
            self._cursor = piece.cursor or self._cursor
            if not output.is_truncated or piece.cursor is None:
                return tuple(lines)

    def was_asked_to_stop(self, unit: str) -> bool:
        """Whether somebody has asked systemd to stop this start of the unit; an end of its own is no such request."""
        self.sync()
        command = (
            "journalctl",
            "--output=cat",
            "--quiet",
            "--no-pager",
            "--lines=1",
            f"MESSAGE_ID={_STOPPING}",
            f"UNIT={unit}",
            f"INVOCATION_ID={self._invocation_id}",
        )
        output = self._host.run_as_root(command, timeout_s=_READ_TIMEOUT_S, is_idempotent=True)
        return bool(output.stdout.strip())

    def sync(self) -> None:
        """Have the host write down what it has received: the last words of a process may still be on their way."""
        self._host.run_as_root(("journalctl", "--sync"), is_idempotent=True)

    def _command(self) -> Sequence[str]:
        after = () if self._cursor is None else (f"--after-cursor={self._cursor}",)
        return (
            "journalctl",
            "--output=json",
            "--output-fields=MESSAGE",
            "--all",
            "--quiet",
            "--no-pager",
            *after,
            f"_SYSTEMD_INVOCATION_ID={self._invocation_id}",
        )


def _decode_message(message: Any) -> list[str]:
    if message is None:
        return []
    if isinstance(message, str):
        text = message
    elif all(isinstance(item, int) for item in message):
        text = bytes(message).decode("utf-8", errors="replace")
    else:
        return [line for item in message for line in _decode_message(item)]
    return [line.removesuffix("\r") for line in text.split("\n")]
