"""Plays one fault: prepares the host, starts a tuner, strikes, follows what must follow, and says what is wrong."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.errors import AutotuneError
from autotune.study_view import load_study
from autotune.trial import TrialKind, TrialRecord
from tests.host.container import Container
from tests.host.faults import SLOW_STEPS, Fault, Step
from tests.host.lab import Lab
from tests.host.scene import Scene
from tests.host.service import SITE, install_worker, is_serving, set_faults, start_stand_in
from tests.host.state import compare, ignore_files, snapshot, wait_until_none
from tests.host.study_file import NAME, render_study, write_study
from tests.host.tuner_process import Place, Tuner, run_tuner

TUNER_PATIENCE_S: Final = 150.0
HOST_PATIENCE_S: Final = 45.0


@dataclass(frozen=True, slots=True)
class FaultResult:
    """What came of a fault.

    Attributes:
        fault: which.
        place: where the tuner ran.
        exit_codes: of the tuner that met it, and of the commands that followed.
        problems: what is wrong, one sentence each; empty: all is as it must be.
        cells: how many cells were measured and kept.
        seconds: how long it took.
        text: what all commands said.
    """

    fault: Fault
    place: Place
    exit_codes: tuple[int, ...]
    problems: tuple[str, ...]
    cells: int
    seconds: float
    text: str


def play(lab: Lab, host: Container, fault: Fault, place: Place, folder: Path, seed: int) -> FaultResult:
    """Play a fault on a host that is as new.

    Args:
        lab: the network.
        host: the machine.
        fault: what goes wrong.
        place: where the tuner runs.
        folder: an empty folder for the tuner; on the host it becomes one of the same name below ``/root``.
        seed: of everything left to chance.
    """
    started = time.monotonic()
    pace = (SLOW_STEPS,) if fault.is_slow else ()
    set_faults(host, *pace)  # of the server found too
    unit = dict(fault.unit)
    if fault.is_profiled:
        install_worker(host)
        unit["environment"] = {"PYTHONPATH": SITE}
    start_stand_in(host, **unit)
    set_faults(host, *fault.rules, *pace)
    if fault.arrange is not None:
        fault.arrange(host)
    working = Path("/root") / folder.name if place is Place.ON_HOST else folder
    text = render_study(lab, host, place, deployment=fault.deployment, server=fault.server, profile=fault.is_profiled)
    write_study(working, text, host if place is Place.ON_HOST else None)
    before = snapshot(host)
    arguments = ["optimize", f"{NAME}.toml", "--plain", "--trials", str(fault.trials)]
    tuner = Tuner(lab, host, working, place, arguments)
    scene = Scene(lab, host, place, working, before, tuner, random.Random(f"{seed} {fault.name}"))  # noqa: S311 - chance, not secrecy
    codes: list[int] = []
    said: list[str] = []
    problems: list[str] = []
    try:
        with _striker(scene, fault):
            codes.append(tuner.wait(TUNER_PATIENCE_S))
    except TimeoutError as error:
        problems.append(str(error))
    finally:
        tuner.close()
    said.append(tuner.text)
    problems += scene.notes
    problems += _judge_first(fault, tuner, codes)
    problems += _find_lost(scene, tuner)
    try:
        for step in fault.steps:
            _follow(scene, fault, step, arguments, codes, said, problems)
        problems += _find_orphans(lab)
        problems += _judge_host(scene, fault)
        problems += _find_lost(scene, tuner)
        problems += _judge_trials(scene, fault)
    finally:
        scene.end_started()
        host.link(is_up=True)
    return FaultResult(
        fault,
        place,
        tuple(codes),
        tuple(dict.fromkeys(problems)),
        len(tuner.find_cells()),
        time.monotonic() - started,
        "\n".join(said),
    )


@contextmanager
def _striker(scene: Scene, fault: Fault) -> Iterator[None]:
    """Strike when the moment has come, while the tuner is at work."""
    if fault.moment is None or fault.action is None:
        yield
        return
    moment, action = fault.moment, fault.action
    is_over = threading.Event()

    def strike() -> None:
        while not moment(scene):
            if scene.tuner.has_ended or is_over.wait(0.005):
                scene.notes.append("the tuner ended before the fault could strike")
                return
        try:
            action(scene)
        except Exception as error:  # noqa: BLE001  # told with the result
            scene.notes.append(f"the fault itself failed: {error!r}")

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(0.1)  # the end of the tuner may be what it waits for
        is_over.set()
        thread.join(60)


def _follow(
    scene: Scene,
    fault: Fault,
    step: Step,
    arguments: list[str],
    codes: list[int],
    said: list[str],
    problems: list[str],
) -> None:
    """Do what follows the end of the tuner."""
    if step is Step.HEAL:
        if fault.heal is not None:
            fault.heal(scene)
        return
    if step is Step.HOST_ITSELF:
        left = wait_until_none(lambda: _compare(scene, without_notes=True), HOST_PATIENCE_S, pause_s=1.0)
        problems += [f"the host did not restore itself: {difference}" for difference in left]
        return
    command = arguments if step is Step.OPTIMIZE else ["restore", f"studies/{NAME}/"]
    code, text = run_tuner(scene.lab, scene.host, scene.folder, scene.place, command, TUNER_PATIENCE_S)
    codes.append(code)
    said.append(f"--- autotune {' '.join(command)}\n{text}")
    if code != 0:
        problems.append(f"{step.value} ended with {code}: {text[-600:]}")


def _judge_first(fault: Fault, tuner: Tuner, codes: list[int]) -> list[str]:
    """See whether the tuner that met the fault ended as it must, and said why."""
    problems = []
    if codes and fault.exit_codes and codes[0] not in fault.exit_codes:
        problems.append(f"exit code {codes[0]} instead of {sorted(fault.exit_codes)}: {tuner.text[-600:]}")
    problems += [f"never said {words!r}: {tuner.text[-600:]}" for words in fault.says if words not in tuner.text]
    if "Traceback (most recent call last)" in tuner.text:
        problems.append(f"a traceback: {tuner.text[-1500:]}")
    return problems


def _find_lost(scene: Scene, tuner: Tuner) -> list[str]:
    """Say which cells were measured and are not in the study."""
    announced = tuner.find_cells()
    if not announced:
        return []
    stored = {(trial.number, cell.cell.name) for trial in _load_trials(scene) for cell in trial.cells}
    return [f"cell {cell} of trial {number} was lost" for number, cell in sorted(announced - stored)]


def _judge_trials(scene: Scene, fault: Fault) -> list[str]:
    """See whether the verdicts are right."""
    if not fault.states and not fault.reason:
        return []
    problems = []
    trials = [trial for trial in _load_trials(scene) if trial.kind not in {TrialKind.BASELINE, TrialKind.PROFILE}]
    for budget, states in fault.states.items():
        found = [trial for trial in trials if trial.configuration.get("budget") == budget]
        last = found[-1] if found else None
        if last is None:
            problems.append(f"no trial has budget {budget}")
        elif last.state.value not in states:
            problems.append(f"budget {budget} is {last.state.value} instead of {sorted(states)}: {last.reason}")
        elif (words := fault.reason.get(budget)) is not None and words not in (last.reason or ""):
            problems.append(f"budget {budget} is {last.state.value} because {last.reason!r}, expected {words!r}")
        if budget not in fault.reason:
            problems += [
                f"trial {trial.number} with budget {budget} is blamed: {trial.reason}"
                for trial in found
                if trial.state.value == "infeasible" and "infeasible" not in states
            ]
    return problems


def _judge_host(scene: Scene, fault: Fault) -> list[str]:
    """See whether the host is as it was."""
    without_notes = bool(fault.steps) and fault.steps[-1] is Step.HOST_ITSELF
    problems = wait_until_none(lambda: _compare(scene, without_notes=without_notes))
    after = snapshot(scene.host)
    if fault.is_untouched and after.main_pid != scene.before.main_pid:
        problems.append("the server was restarted although nothing should have been touched")
    if scene.before.server is not None and not is_serving(scene.host):
        problems.append("the server does not generate")
    return problems


def _compare(scene: Scene, *, without_notes: bool) -> list[str]:
    """Compare the host with what it was; what the host's own restore has noted counts only where a command followed."""
    before, after = scene.before, snapshot(scene.host)
    if without_notes:
        before, after = (ignore_files(state, "/run/autotune") for state in (before, after))
    return compare(before, after)


def _find_orphans(lab: Lab) -> list[str]:
    """Say which processes the tuner has left behind on its own machine."""

    def find() -> list[str]:
        pids = lab.list_processes()
        return [f"process {pid} of the tuner is left: {' '.join(command)}" for pid, command in pids.items()]

    return wait_until_none(find)


def _load_trials(scene: Scene) -> tuple[TrialRecord, ...]:
    """Read the study's trials; none when there is no study."""
    try:
        return load_study(scene.study_folder).trials
    except AutotuneError:
        return ()
