"""What was in the place of our drop-in before each apply, and which change is under way? Records and their JSON; pure.

One file holds all of it, so that one rename moves a change from "under way" to "done": there is no moment in between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from autotune.errors import HostError
from autotune.trial import ParameterValue

VERSION: Final = 1
KEPT_STEPS: Final = 10
"""How many applies can be taken back, one by one; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, or its absence.

    Attributes:
        content: its bytes; ``None`` when there is no file.
        mode: permission bits.
        user_id: owner.
        group_id: owning group.
    """

    content: bytes | None
    mode: int = 0o644
    user_id: int = 0
    group_id: int = 0

    @property
    def digest(self) -> str | None:
        """SHA-256 of the bytes, in hexadecimal; ``None`` for no file."""
        return None if self.content is None else hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Step:
    """One apply, as far as it has to be known to take it back.

    Attributes:
        number: counts up on each host and unit; names the files that hold the bytes.
        study: name of the study.
        trial: number of the trial.
        started_at: UTC, ISO 8601.
        file_name: name of the drop-in.
        before_digest: SHA-256 of the file that was there; ``None`` when there was none.
        before_mode: its permission bits.
        before_user_id: its owner.
        before_group_id: its owning group.
        had_folder: whether the unit's drop-in folder existed.
        written_digest: SHA-256 of what we wrote.
        was_running: whether the service ran.
        reported_before: what the server reported of the tuned parameters before; empty when it did not serve.
    """

    number: int
    study: str
    trial: int
    started_at: str
    file_name: str
    before_digest: str | None
    before_mode: int
    before_user_id: int
    before_group_id: int
    had_folder: bool
    written_digest: str
    was_running: bool
    reported_before: Mapping[str, ParameterValue] = field(default_factory=dict)

    @property
    def before_name(self) -> str:
        """Name of the file that holds the bytes that were there."""
        return f"{self.number:04d}-before.conf"

    @property
    def written_name(self) -> str:
        """Name of the file that holds the bytes that we wrote."""
        return f"{self.number:04d}-written.conf"


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was begun and is not known to have ended.

    Attributes:
        kind: writing a step's drop-in, or putting back what was there before the step.
        step: which step.
        was_running: whether the service ran when this change began, so that it has to run when it ends.
        invocation_id: which start of the service that was; another one means that it has been restarted since.
        dependants: units that ran then and that a stop of the service stops too.
    """

    kind: Literal["apply", "rollback"]
    step: Step
    was_running: bool
    invocation_id: str
    dependants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All applies that can be taken back, oldest first, and the change under way.

    Attributes:
        steps: done, at most :data:`KEPT_STEPS`.
        change: under way; ``None`` when nothing is.
    """

    steps: tuple[Step, ...] = ()
    change: Change | None = None

    @property
    def next_number(self) -> int:
        """Number of the next step."""
        known = [step.number for step in self.steps] + ([self.change.step.number] if self.change else [])
        return max(known, default=0) + 1

    def begin(self, change: Change) -> History:
        """Return the history with a change under way."""
        return replace(self, change=change)

    def apply_done(self) -> History:
        """Return the history in which the apply under way is the newest step."""
        if self.change is None:
            return self
        return History((*self.steps, self.change.step)[-KEPT_STEPS:])

    def undone(self) -> History:
        """Return the history without the step that the change under way is about."""
        if self.change is None:
            return self
        return History(tuple(step for step in self.steps if step.number != self.change.step.number))


def render_history(history: History) -> bytes:
    """Return the history as it lies on the host."""
    document = {
        "version": VERSION,
        "steps": [asdict(step) for step in history.steps],
        "change": None if history.change is None else asdict(history.change),
    }
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def parse_history(data: bytes | None, where: str) -> History:
    """Read a history; no file is an empty one.

    Raises:
        HostError: it is damaged, or a newer version of this program wrote it.
    """
    if data is None:
        return History()
    try:
        document = json.loads(data)
        if document["version"] != VERSION:
            raise HostError(
                f"the history of applies has version {document['version']}, this program reads {VERSION}",
                where=where,
                hint="use the version of autotune that wrote it",
            )
        change = document["change"]
        return History(
            tuple(_parse_step(item) for item in document["steps"]),
            None if change is None else _parse_change(change),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(
            f"the history of applies cannot be read: {error}",
            where=where,
            hint="the files beside it hold what was there before; put it back by hand, then remove that folder",
        ) from error


def _parse_change(item: dict[str, Any]) -> Change:
    dependants = tuple(map(str, item.get("dependants", ())))  # those of earlier versions have none
    return Change(**{**item, "step": _parse_step(item["step"]), "dependants": dependants})


def _parse_step(item: dict[str, Any]) -> Step:
    return Step(**item)
