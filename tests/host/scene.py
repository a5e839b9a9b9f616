"""What a fault has to do with: the host with its service, a tuner at work on it, and the moments at which to strike."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import UNIT
from tests.host.state import HostSnapshot
from tests.host.study_file import NAME
from tests.host.tuner_process import Place, Tuner

DROP_IN: Final = f"/run/systemd/system/{UNIT}.d/zzz-autotune-trial.conf"
HOST_FOLDER: Final = f"/run/autotune/{UNIT}"
LEASE: Final = f"{HOST_FOLDER}/lease"


@dataclass
class Scene:
    """One fault being played.

    Attributes:
        lab: the network.
        host: the machine with the service.
        place: where the tuner runs.
        folder: the tuner's working folder, on the machine where it runs.
        before: how the host was before the tuner came.
        tuner: the first command; there is none before it starts.
        generator: where all chance comes from.
        started: processes of this machine to be ended with the scene.
        notes: what went wrong in the background.
    """

    lab: Lab
    host: Container
    place: Place
    folder: Path
    before: HostSnapshot
    tuner: Tuner
    generator: random.Random
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def study_folder(self) -> Path:
        """The folder of the study, as this machine sees it."""
        folder = self.folder / "studies" / NAME
        return self.host.root / str(folder).lstrip("/") if self.place is Place.ON_HOST else folder

    def start_on_host(self, *command: str) -> None:
        """Run a program on the host in the background, until the scene ends."""
        enter = ["nsenter", "--target", str(self.host.init_pid), "--all", "--wdns=/", "--", *command]
        quiet = subprocess.DEVNULL
        self.started.append(subprocess.Popen(enter, stdin=quiet, stdout=quiet, stderr=quiet))

    def end_started(self) -> None:
        """End what was started in the background: the child of each ``nsenter``, which then ends too."""
        for process in self.started:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            for pid in children.read_text().split() if children.exists() else []:
                os.kill(int(pid), signal.SIGKILL)
            process.wait(10)
        self.started.clear()


Moment = Callable[[Scene], bool]
"""Whether it is time to strike; asked again and again."""
Action = Callable[[Scene], None]
"""What happens then."""


def said(words: str, times: int = 1) -> Moment:
    """When the tuner has said a line with these words so many times."""
    return lambda scene: scene.tuner.has_said(words, times)


def exists(path: str) -> Moment:
    """When there is a file on the host."""

    def look(scene: Scene) -> bool:
        try:
            return scene.host.inside(path).exists()
        except RuntimeError:
            return False

    return look


def gone(path: str) -> Moment:
    """When a file that was on the host is not there any more."""
    seen: set[int] = set()

    def look(scene: Scene) -> bool:
        if exists(path)(scene):
            seen.add(id(scene))
            return False
        return id(scene) in seen

    return look


def later(seconds: float, moment: Moment) -> Moment:
    """So long after another moment."""
    since: dict[int, float] = {}

    def look(scene: Scene) -> bool:
        if id(scene) not in since:
            if not moment(scene):
                return False
            since[id(scene)] = time.monotonic()
        return time.monotonic() - since[id(scene)] >= seconds

    return look


def any_time(longest_s: float) -> Moment:
    """At a moment that chance chooses, counted from the start of the tuner."""
    chosen: dict[int, float] = {}

    def look(scene: Scene) -> bool:
        now = time.monotonic()
        deadline = chosen.setdefault(id(scene), now + scene.generator.uniform(0.0, longest_s))
        return now >= deadline

    return look
