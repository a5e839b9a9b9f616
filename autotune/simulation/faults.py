"""What goes wrong on an imaginary machine through no fault of a configuration? Drawn for each boot, seeded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from autotune.simulation.noise import BootId, NightNoise


class Fault(Enum):
    """What the machine does to one boot."""

    HANG = "hang"
    """The server stops loading and never answers."""
    CRASH = "crash"
    """The server is killed in one of its cells."""
    LOSS = "loss"
    """The connection to the machine breaks once while the server loads; the next command reaches it again."""


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Which share of all boots meets which fault; a boot meets one at most.

    Attributes:
        hang: share of boots that never get ready.
        crash: share of boots whose server dies in a cell.
        loss: share of boots during which the connection breaks.
    """

    hang: float = 0.0
    crash: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        """Refuse shares that are none.

        Raises:
            ValueError: a share is negative, or they add up to more than 1.
        """
        shares = (self.hang, self.crash, self.loss)
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"shares of faults are at least 0 and add up to 1 at most, not {shares}")


def draw_fault(settings: FaultSettings, noise: NightNoise, boot: BootId) -> Fault | None:
    """Return what happens to a boot; ``None`` mostly."""
    drawn = noise.draw_of("fault", boot).random()
    for fault, share in ((Fault.HANG, settings.hang), (Fault.CRASH, settings.crash), (Fault.LOSS, settings.loss)):
        if drawn < share:
            return fault
        drawn -= share
    return None
