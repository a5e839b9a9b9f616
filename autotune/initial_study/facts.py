"""What is known about a live service: one frozen record, in which unknown is ``None`` and secrets are hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from autotune.found_configuration import find_flag
from autotune.initial_study.request_lengths import RequestLengths
from autotune.trial import ParameterValue

HIDDEN: Final = "(hidden)"

_SECRET: Final = re.compile(
    r"(^|_)(token|(api|access|admin|private)?_?key|auth|pwd|cookie)$|secret|passw|credential", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: what it is called and its memory in MiB, ``None`` when the tool does not say."""

    name: str
    memory_mb: int | None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the files of the installed server say, read without running them.

    Attributes:
        version: of the package.
        variables: every variable of DDTree and DFlash that they name.
        proofs: properties of the tree that their text shows, by the names of ``proven_by`` in search spaces.
    """

    version: str | None
    variables: frozenset[str]
    proofs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the model's own files recommend; ``None`` where they say nothing."""

    temperature: float | None
    top_p: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything read. Texts come from the host and are not to be trusted.

    Attributes:
        unit: name of the service.
        files: its file and its drop-ins.
        launch_kind: how it starts its server.
        active_state: of the service.
        restart: ``Restart=``.
        timeout_start_s: ``TimeoutStartSec=``; ``None`` when there is no limit.
        timeout_stop_s: the same of stopping.
        command: the server's argument vector; of the process while it runs.
        environment: its variables, as far as they concern the server.
        address: what the server listens on.
        port: its port.
        reported: effective flags by the server's names; ``None`` when it does not answer.
        supported: names of the flags it takes, as identifiers; ``None`` when nobody told.
        supported_by: who told: ``/server_info`` or ``--help``.
        algorithms: what ``--speculative-algorithm`` takes; empty when unknown.
        source: ``None`` when the installed files were not found or are not SGLang's.
        drafter_block: block size that the drafter's own configuration states.
        sampling: ``None`` when the model's files are not at hand.
        gpus: ``None`` when there is no tool that lists them.
        lengths: of requests in the journal; ``None`` when it shows too few.
        load_s: from the start of the process to its ready line.
        log_gap: why the journal lacks the server's log; ``None`` when it should have it.
        unanswered: one sentence for each question without an answer.
    """

    unit: str
    files: tuple[str, ...]
    launch_kind: str
    active_state: str
    restart: str
    timeout_start_s: float | None
    timeout_stop_s: float | None
    command: tuple[str, ...]
    environment: Mapping[str, str]
    address: str
    port: int
    reported: Mapping[str, ParameterValue] | None = None
    supported: frozenset[str] | None = None
    supported_by: str | None = None
    algorithms: tuple[str, ...] = ()
    source: SourceFacts | None = None
    drafter_block: int | None = None
    sampling: Sampling | None = None
    gpus: tuple[Gpu, ...] | None = None
    lengths: RequestLengths | None = None
    load_s: float | None = None
    log_gap: str | None = None
    unanswered: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether there is a server, or is about to be, that could be looked at."""
        return self.active_state in {"active", "activating", "reloading"}

    @property
    def model(self) -> str | None:
        """Path or name of the model."""
        return self.ask("model_path", "--model-path", "--model")

    @property
    def drafter(self) -> str | None:
        """Path or name of the drafter."""
        return self.ask("speculative_draft_model_path", "--speculative-draft-model-path", "--speculative-draft-model")

    @property
    def algorithm(self) -> str | None:
        """The algorithm of speculation that runs or would start; ``None`` when decoding plainly."""
        return self.ask("speculative_algorithm", "--speculative-algorithm")

    @property
    def version(self) -> str | None:
        """What the server, or its package, calls its version."""
        reported = None if self.reported is None else self.reported.get("version")
        return str(reported) if reported is not None else None if self.source is None else self.source.version

    def ask(self, reported_as: str, *flags: str) -> str | None:
        """Return a value as text: what the server reports, else what its command says; ``None`` when neither tells."""
        reported = None if self.reported is None else self.reported.get(reported_as)
        return str(reported) if reported is not None else find_flag(self.command, *flags)

    def ask_number(self, reported_as: str, *flags: str) -> float | None:
        """The same as a number; ``None`` also for what is none."""
        try:
            return float(self.ask(reported_as, *flags) or "")
        except ValueError:
            return None

    def supports(self, *flags: str) -> bool | None:
        """Whether the server takes a flag in one of its spellings; ``None`` when that is unknown."""
        if self.supported is None:
            return None
        return any(identify(flag) in self.supported for flag in flags)

    def document(self) -> dict[str, Any]:
        """Return everything as data for JSON."""
        data = asdict(self)
        data["environment"], data["reported"] = dict(self.environment), self.reported and dict(self.reported)
        data["supported"] = None if self.supported is None else sorted(self.supported)
        if self.source is not None:
            data["source"] = {
                "version": self.source.version,
                "variables": sorted(self.source.variables),
                "proofs": sorted(self.source.proofs),
            }
        return data


def identify(flag: str) -> str:
    """Return a flag's name as an identifier.

    >>> identify("--page-size")
    'page_size'
    """
    return flag.lstrip("-").replace("-", "_")


def is_secret(name: str) -> bool:
    """Whether the name of a flag or variable says that its value must not be shown.

    >>> is_secret("--api-key"), is_secret("HF_TOKEN"), is_secret("--speculative-num-draft-tokens")
    (True, True, False)
    """
    return _SECRET.search(identify(name)) is not None


def hide_words(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the values of flags that hold secrets.

    >>> hide_words(["x", "--api-key", "s", "--admin-api-key=t", "--port", "1"])
    ('x', '--api-key', '(hidden)', '--admin-api-key=(hidden)', '--port', '1')
    """
    shown: list[str] = []
    hides = False
    for word in command:
        flag, equals, _ = word.partition("=")
        secret = flag.startswith("--") and is_secret(flag)
        shown.append(HIDDEN if hides else f"{flag}={HIDDEN}" if equals and secret else word)
        hides = secret and not equals
    return tuple(shown)
