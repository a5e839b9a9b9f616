"""What is changed together on a host, and what is to run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.apply.archive import Archive
from autotune.apply.export_file import ExportFile
from autotune.apply.history import FileState
from autotune.apply.service import Service
from autotune.search_space import Rendering
from autotune.trial import Configuration


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an apply puts into service.

    Attributes:
        study: name of the study.
        trial: number of the trial.
        configuration: of the trial.
        rendering: its flags and variables.
        tuned: flags that may be exchanged, and whether each has a value.
        reported_names: what the server reports of the tuned parameters.
        file: the drop-in, with mode and owner.
    """

    study: str
    trial: int
    configuration: Configuration
    rendering: Rendering
    tuned: Mapping[str, bool]
    reported_names: frozenset[str]
    file: FileState


@dataclass(frozen=True, slots=True)
class Site:
    """The three things on a host that are changed together.

    Attributes:
        file: our drop-in.
        archive: what was there before.
        service: what has to be restarted.
        say: told each step in words.
    """

    file: ExportFile
    archive: Archive
    service: Service
    say: Callable[[str], None]
