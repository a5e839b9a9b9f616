"""All faults on a real host, one after the other, as a table: ``python -m tests.host.campaign`` (root).

``--place`` says where the tuner runs, ``--only`` picks faults by a part of their name, ``--seed`` moves what chance
decides, ``--repeat`` plays everything so often. Everything that went wrong is printed below the table; the exit code is
the number of faults that did, 99 at most.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.host.conftest import find_obstacle
from tests.host.container import Container
from tests.host.fault_run import FaultResult, play
from tests.host.faults import Fault, list_faults
from tests.host.lab import Lab, list_environment
from tests.host.pristine import Pristine
from tests.host.service import install_stand_ins
from tests.host.tuner_process import Place


def choose(faults: Sequence[Fault], place: Place, only: Sequence[str]) -> list[Fault]:
    """Return the faults that fit a place and one of some parts of names."""
    return [
        fault
        for fault in faults
        if (not only or any(part in fault.name for part in only))
        and (fault.place is None or fault.place is place)
        and not (fault.is_remote and place is Place.ON_HOST)
    ]


def render_row(result: FaultResult) -> str:
    """Render one row of the table."""
    verdict = "ok" if not result.problems else "WRONG"
    codes = ", ".join(str(code) for code in result.exit_codes)
    steps = ", ".join(step.value for step in result.fault.steps) or "-"
    return f"| {result.fault.name} | {result.place.value} | {codes} | {steps} | {result.cells} | {result.seconds:.0f} | {verdict} |"


def play_safely(lab: Lab, host: Container, fault: Fault, place: Place, folder: Path, seed: int) -> FaultResult:
    """Play a fault; a mistake of the harness is a problem of this fault and not the end of the campaign."""
    started = time.monotonic()
    try:
        return play(lab, host, fault, place, folder, seed)
    except Exception:  # noqa: BLE001
        said = traceback.format_exc()
        problems = (f"the harness failed: {said.splitlines()[-1]}",)
        return FaultResult(fault, place, (), problems, 0, time.monotonic() - started, said)


def write_log(folder: Path, result: FaultResult) -> None:
    """Keep what was said, under the fault's name."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = "".join(f"WRONG: {problem}\n" for problem in result.problems)
    name = "".join(letter if letter.isalnum() else "-" for letter in result.fault.name)
    (folder / f"{name}.txt").write_text(f"{problems}{result.text}")


def main() -> int:
    """Play the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", choices=[place.name.lower() for place in Place], default="root")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--log", type=Path, metavar="DIR", help="write what each fault's commands said here")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N faults")
    parser.add_argument("--oom-after", type=float, default=60.0, metavar="S")
    arguments = parser.parse_args()
    if (obstacle := find_obstacle()) is not None:
        print(obstacle, file=sys.stderr)
        return 99
    place = Place[arguments.place.upper()]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(99))  # so that nothing is left behind
    results: list[FaultResult] = []
    started = time.monotonic()
    with Lab() as lab, tempfile.TemporaryDirectory() as scratch:
        container = lab.host("gpu1", users=("ubuntu",), binds=list_environment(), boot=False)
        install_stand_ins(container)
        pristine = Pristine(container.boot())
        print("| fault | tuner | exit codes | then | cells | s | verdict |\n|---|---|---|---|---|---|---|", flush=True)
        for turn in range(arguments.repeat):
            for number, fault in enumerate(
                choose(list_faults(arguments.oom_after), place, arguments.only)[arguments.skip :]
            ):
                pristine.put_back()
                folder = Path(scratch) / f"{turn}-{number}"
                folder.mkdir()
                results.append(play_safely(lab, container, fault, place, folder, arguments.seed + turn))
                print(render_row(results[-1]), flush=True)
                if arguments.log is not None:
                    write_log(arguments.log, results[-1])
    wrong = [result for result in results if result.problems]
    for result in wrong:
        print(f"\n## {result.fault.name}")
        for problem in result.problems:
            print(f"- {problem}")
        print(result.text[-6000:])
    print(
        f"\n{len(results) - len(wrong)} of {len(results)} faults ended as they must, {time.monotonic() - started:.0f} s"
    )
    return min(len(wrong), 99)


if __name__ == "__main__":
    sys.exit(main())
