"""What is kept of one simulated night of a campaign, and how is it written so that a killed campaign goes on?"""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Generic, Protocol, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from autotune.errors import HostBusyError, UserError
from autotune.simulation.regret import Standing

_NEXT: Final = "name another file with --out, or remove the line"


@dataclass(frozen=True, slots=True)
class NightKey:
    """What makes two simulated nights the same one.

    Attributes:
        method: name of who proposes.
        surface: name of the surface.
        version: of the surface; see :class:`~autotune.simulation.truth.Truth`.
        seed: of sampler and noise.
        trials: counted trials that the night may take.
    """

    method: str
    surface: str
    version: str
    seed: int
    trials: int


@dataclass(frozen=True, slots=True)
class NightScore:
    """One simulated night, judged.

    Attributes:
        key: which night.
        standings: before the first counted trial and after each.
        reason: why it ended.
        pruned: trials that were stopped early.
        infeasible: trials that met an obstacle.
        warned: counted trials after the first that met an obstacle.
        infeasible_warned: those of them that met an obstacle of a kind that had been met before.
        proposed: proposals that the sampler made.
        proposing_s: processor time that they took, in seconds.
    """

    key: NightKey
    standings: tuple[Standing, ...]
    reason: str
    pruned: int
    infeasible: int
    warned: int
    infeasible_warned: int
    proposed: int
    proposing_s: float

    def after(self, trials: int) -> Standing:
        """Return how the night stood after so many trials, or at its end when it ended earlier."""
        return self.standings[min(trials, len(self.standings) - 1)]

    def after_boots(self, boots: int) -> Standing:
        """Return the last standing that took at most so many boots, the baseline's included; else the first."""
        return max(
            (standing for standing in self.standings if standing.boots <= boots),
            key=lambda standing: standing.boots,
            default=self.standings[0],
        )


class Keyed(Protocol):
    """What a file keeps of a night."""

    @property
    def key(self) -> NightKey:
        """Which night."""
        ...


Score = TypeVar("Score", bound=Keyed)


class ScoreFile(Generic[Score]):
    """A file with one JSON line for each finished night; use as a context manager, which locks it.

    Args:
        path: made when it does not exist.
        kind: the dataclass that is kept of a night.

    Attributes:
        scores: everything that is in the file.
    """

    def __init__(self, path: Path, kind: type[Score]) -> None:
        self._path = path
        self._adapter = TypeAdapter(kind)
        self._file: IO[bytes] | None = None
        self.scores: dict[NightKey, Score] = {}

    def __enter__(self) -> Self:
        """Open, lock and read the file; half a line at its end, of a campaign that was killed, is cut off.

        Raises:
            HostBusyError: another campaign writes it.
            UserError: it cannot be opened, or holds something else.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+b")
        except OSError as error:
            raise UserError(
                f"cannot be written: {(error.strerror or str(error)).lower()}",
                where=str(self._path),
                hint="name a file that can be written",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise HostBusyError(
                "another campaign writes this file", where=str(self._path), hint="wait for it to end, or stop it"
            ) from error
        try:
            file.seek(0)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            file.truncate(whole)
            self.scores = self._read(data[:whole])
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, score: Score) -> None:
        """Write one night and hand it to the operating system.

        Raises:
            ValueError: the file is not open.
        """
        if self._file is None:
            raise ValueError(f"{self._path} is not open")
        self._file.write(self._adapter.dump_json(score) + b"\n")
        self._file.flush()
        self.scores[score.key] = score

    def _read(self, data: bytes) -> dict[NightKey, Score]:
        """Read whole lines; a night that was written twice stands as it was written last.

        Raises:
            UserError: a line is no such night.
        """
        scores: dict[NightKey, Score] = {}
        for number, line in enumerate(data.splitlines(), start=1):
            try:
                score = self._adapter.validate_json(line)
            except ValidationError as error:
                raise UserError(
                    f"line {number} is not a night of this kind of campaign", where=str(self._path), hint=_NEXT
                ) from error
            scores[score.key] = score
        return scores
