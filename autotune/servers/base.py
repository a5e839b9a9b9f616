"""What the tuner asks of a server dialect: how to launch it, whether it is ready, what it runs, why it died."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from autotune.draft_hook import LIMIT_VARIABLE, LOG_VARIABLE, PATH_VARIABLE, TOPK_VARIABLE
from autotune.errors import ServerError
from autotune.trial import Configuration, ParameterValue


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What to start: an argument vector, and the variables to set beside the inherited environment.

    A variable whose value is ``None`` is removed from the inherited environment.

    Attributes:
        command: the whole argument vector, for a server that the tuner starts itself.
        environment: variables to set or to remove.
        arguments: the part of the command that the configuration decides, for a server whose command a unit has.
        loads_hook: whether its variables name the hook that logs drafts, which has to lie on the server's host.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str | None]
    arguments: tuple[str, ...] = ()
    loads_hook: bool = False


@dataclass(frozen=True, slots=True)
class DraftLogPlace:
    """Where a server can log its drafts; all paths are of its own host.

    Attributes:
        log_path: file that receives the log.
        hook_folder: where the hook lies that writes it, for a server that has no such log itself.
        python_path: ``PYTHONPATH`` of the server without the hook; empty when it has none.
        limit_bytes: largest size of the log.
    """

    log_path: str
    hook_folder: str
    python_path: str
    limit_bytes: int


def load_hook(launch: LaunchSpec, place: DraftLogPlace, topk: int) -> LaunchSpec:
    """Return a launch whose server loads the hook first and then what it would load without it.

    Args:
        launch: without the hook.
        place: where the hook lies and writes.
        topk: tokens that are logged for each position.
    """
    own = launch.environment.get(PATH_VARIABLE, place.python_path)
    hook = {
        PATH_VARIABLE: ":".join([place.hook_folder, *([own] if own else [])]),
        LOG_VARIABLE: place.log_path,
        TOPK_VARIABLE: str(topk),
        LIMIT_VARIABLE: str(place.limit_bytes),
    }
    return replace(launch, environment={**launch.environment, **hook}, loads_hook=True)


class Phase(Enum):
    """How far a starting server has come, as seen from outside."""

    REFUSED = "refused"
    """Nobody listens yet."""
    UNREADY = "unready"
    """Answers, but not yet with a generation: 503, a time-out, an error."""
    READY = "ready"
    """A generation was made and checked."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at a starting server: its phase and the answer in words (untrusted text)."""

    phase: Phase
    answer: str


class ServerDialect(ABC):
    """One family of servers. Methods that talk to the server take its base URL and never raise for "not yet"."""

    @abstractmethod
    def render_launch(self, configuration: Configuration) -> LaunchSpec:
        """Return what to start for a canonical configuration; pure."""

    def render_profile(
        self,
        configuration: Configuration,  # noqa: ARG002  # for the servers that can
        place: DraftLogPlace,  # noqa: ARG002  # same
        windows: Sequence[int],  # noqa: ARG002  # same
    ) -> LaunchSpec | None:
        """Return what to start so that the server logs the drafts of a configuration; pure.

        The log is one that :func:`autotune.replay.draft_log.read_answers` reads.

        Args:
            configuration: in canonical form.
            place: where the server can log.
            windows: logged beside the configuration's own, where the server can.

        Returns:
            ``None`` when this server cannot.
        """
        return None

    @abstractmethod
    def is_speculative(self, configuration: Configuration) -> bool:
        """Whether the server speculates with this configuration; plain decoding has no accept length; pure."""

    @abstractmethod
    def probe(self, url: str) -> Probe:
        """Look once whether the server can generate; refused, 503 and time-outs are phases, not errors."""

    @abstractmethod
    def fetch_effective_flags(self, url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        """Return the flags the server says it is running with.

        Args:
            url: its base URL.
            environment: the variables its process was started with, for what it reports nowhere.

        Raises:
            HostError: a variable is set that would falsify every figure.
            MeasurementError: the server answers something that cannot be read.
        """

    @abstractmethod
    def count_requests(self, url: str) -> int | None:
        """Return how many requests the server works on or has waiting; ``None`` when it does not say."""

    @abstractmethod
    def find_mismatches(self, configuration: Configuration, effective: Mapping[str, ParameterValue]) -> tuple[str, ...]:
        """Return one sentence for each parameter that the server runs with another value than asked; pure."""

    @abstractmethod
    def find_configuration(self, effective: Mapping[str, ParameterValue]) -> Configuration | None:
        """Return the one configuration of the search space that a server with these flags runs; pure.

        ``None`` when it is none of them, or when the flags do not tell several of them apart.
        """

    @abstractmethod
    def find_fatal_line(self, log_lines: Sequence[str]) -> str | None:
        """Return the first line after which a starting server cannot become ready any more, if there is one; pure."""

    def find_free_memory(self, log_lines: Sequence[str]) -> float | None:  # noqa: ARG002  # for the servers that say it
        """Return the memory in GB that a started server left free on the fullest device; pure.

        ``None`` when its log does not say.
        """
        return None

    @abstractmethod
    def find_suspicion(self, configuration: Configuration, accept_length: float | None) -> str | None:
        """Return a sentence when an accept length shows that something is broken; pure."""

    @abstractmethod
    def classify_failure(self, log_lines: Sequence[str], exit_code: int | None) -> ServerError:
        """Say why a boot failed, from its log; pure. ``exit_code`` is ``None`` while the process lives."""
