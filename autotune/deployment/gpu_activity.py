"""What do the GPUs of a host do while a boot is measured: clock, power, temperature, and what slows them down?

Asked of nvidia-smi or rocm-smi, whichever is there; fields by ``nvidia-smi --help-query-gpu`` and the bits of NVML's
``nvmlClocksEventReasons``.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autotune.deployment.host import Host
from autotune.trial import GpuActivity

_FIELDS: Final = "index,uuid,clocks.sm,power.draw,temperature.gpu"
_REASON_FIELDS: Final = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The present name, and the one before driver 535."""
_ROCM: Final = ("rocm-smi", "--showclocks", "--showpower", "--showtemp", "--json")
_NOT_FOUND: Final = (126, 127)
_TIMEOUT_S: Final = 15.0

REASONS: Final[Mapping[int, str]] = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits that lower a clock under load, by NVML's names; idle, fixed clocks and synchronised boost are left out."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; ``None`` is not told.

    Attributes:
        gpu: its key.
        name: what people call it.
        clock_mhz: of the multiprocessors.
        power_w: drawn.
        temperature_c: of the chip.
        slowed_by: reasons that lower its clock, in words; ``None`` where the tool does not say.
    """

    gpu: str
    name: str
    clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    slowed_by: frozenset[str] | None


@dataclass(slots=True)
class GpuTool:
    """The GPU tool of one host; which one, and which of its fields it knows, is found out once.

    Attributes:
        host: the machine.
    """

    host: Host
    _commands: list[tuple[str, ...]] = field(
        default_factory=lambda: [
            *(
                ("nvidia-smi", f"--query-gpu={_FIELDS},{name}", "--format=csv,noheader,nounits")
                for name in _REASON_FIELDS
            ),
            _ROCM,
        ]
    )

    def sample(self) -> tuple[GpuSample, ...]:
        """Look at every GPU now; empty where there is none, or the tool does not answer.

        Raises:
            SshError: the host cannot be asked.
            RemoteTimeout: the tool hangs.
        """
        while self._commands:
            command = self._commands[0]
            output = self.host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True)
            if output.exit_code == 0:
                samples = parse_rocm(output.text) if command == _ROCM else parse_nvidia(output.text)
                if samples or len(self._commands) == 1:
                    return samples
            elif output.exit_code not in _NOT_FOUND and len(self._commands) == 1:
                return ()
            self._commands.pop(0)
        return ()


def parse_nvidia(text: str) -> tuple[GpuSample, ...]:
    r"""Read the table of nvidia-smi; what it does not support stands as ``[N/A]`` and is unknown.

    >>> parse_nvidia("0, GPU-a, 1980, 312.44, 61, 0x0000000000000004\n")[0].slowed_by
    frozenset({'software power cap'})
    """
    samples = []
    for line in text.splitlines():
        fields = [part.strip() for part in line.split(",")]
        if len(fields) != 6 or not fields[0].isdecimal():
            continue
        index, uuid, clock, power, temperature, reasons = fields
        samples.append(
            GpuSample(uuid, f"GPU {index}", _number(clock), _number(power), _number(temperature), _reasons(reasons))
        )
    return tuple(samples)


def parse_rocm(text: str) -> tuple[GpuSample, ...]:
    """Read the JSON of rocm-smi, whose keys differ between versions: matched by what they mean.

    >>> parse_rocm('{"card0": {"sclk clock speed:": "(2100Mhz)", "Temperature (Sensor junction) (C)": "58.0"}}')[0].clock_mhz
    2100.0
    """
    try:
        cards = json.loads(text[text.index("{") :])
    except ValueError:
        return ()
    if not isinstance(cards, dict):
        return ()
    return tuple(
        GpuSample(
            card,
            f"GPU {card.removeprefix('card')}",
            _find(values, r"^sclk clock speed"),
            _find(values, r"Socket.*Power \(W\)|Graphics Package Power \(W\)"),
            _find(values, r"Temperature \(Sensor junction\)") or _find(values, r"Temperature \(Sensor edge\)"),
            None,
        )
        for card, values in cards.items()
        if card.startswith("card") and isinstance(values, dict)
    )


def summarise(samples: Sequence[GpuSample]) -> tuple[GpuActivity, ...]:
    """Return what each GPU did over many samples, by name."""
    by_gpu: dict[str, list[GpuSample]] = {}
    for sample in samples:
        by_gpu.setdefault(sample.gpu, []).append(sample)
    found = []
    for key, mine in by_gpu.items():
        told = [sample.slowed_by for sample in mine if sample.slowed_by is not None]
        reasons = sorted(set().union(*told))
        temperatures = [sample.temperature_c for sample in mine if sample.temperature_c is not None]
        found.append(
            GpuActivity(
                gpu=key,
                name=mine[0].name,
                samples=len(mine),
                clock_mhz=_mean([sample.clock_mhz for sample in mine]),
                power_w=_mean([sample.power_w for sample in mine]),
                hottest_c=max(temperatures, default=None),
                slowed={reason: sum(reason in each for each in told) / len(told) for reason in reasons}
                if told
                else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (len(each.name), each.name)))


def _reasons(text: str) -> frozenset[str] | None:
    try:
        bits = int(text, 16)
    except ValueError:
        return None
    return frozenset(name for bit, name in REASONS.items() if bits & bit)


def _find(values: Mapping[str, object], pattern: str) -> float | None:
    """Return the number in the first value whose key matches."""
    for key, value in values.items():
        if re.search(pattern, key) and (found := re.search(r"-?\d+(\.\d+)?", str(value))):
            return float(found[0])
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
