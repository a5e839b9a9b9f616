"""What the user wrote in ``studies/*.toml``: one schema, checked when the file is read, unknown keys refused by name.

TOML has no null, so the word ``"none"`` stands for *switched off* wherever a parameter's value is written.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationError,
    model_validator,
)

from autotune.errors import SettingsError
from autotune.search_space_file import SearchSpaceFile
from autotune.settings_mistakes import explain_mistakes
from autotune.trial import Cell

LARGEST_SEED: Final = 2**63 - 1
"""Largest seed of a request: servers read it into 64 bits with a sign."""

LARGEST_SAMPLER_SEED: Final = 2**32 - 1
"""Largest seed of a sampler: they draw from NumPy's legacy generator."""

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""What a study may be called: it names a folder too."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def _check_line(text: str) -> str:
    """Refuse what no argument, variable or address can hold: NUL and line ends."""
    bad = next((char for char in text if char in "\0\n\r"), None)
    if bad is not None:
        raise ValueError(f"{text!r} holds {bad!r}, which cannot reach a server; leave it out")
    return text


def _check_seed(seed: int) -> int:
    if seed > LARGEST_SEED:
        raise ValueError(f"{seed} is more than {LARGEST_SEED}, the largest seed that a server can read")
    return seed


def _check_sampler_seed(seed: int) -> int:
    if seed > LARGEST_SAMPLER_SEED:
        raise ValueError(f"{seed} is more than {LARGEST_SAMPLER_SEED}, the largest seed that a sampler can take")
    return seed


def _check_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a variable; use letters, digits and underscores, no digit first")
    return name


def _check_mix(mix: dict[str, float]) -> dict[str, float]:
    """Refuse a mix of prompts that names none, or one that does not exist."""
    unknown = sorted(set(mix) - set(PROMPT_KINDS))
    if unknown or not mix:
        kinds = ", ".join(PROMPT_KINDS)
        msg = (
            f"{', '.join(unknown)} is no kind of prompt: choose of {kinds}"
            if unknown
            else f"name at least one of {kinds}"
        )
        raise ValueError(msg)
    return mix


def _check_host(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in labels):
            raise ValueError(
                f"{host!r} is neither an address nor the name of a host; write for example 127.0.0.1, ::1 or localhost"
            ) from None
    return host


SAMPLERS_WITH_ACCEPT_LENGTHS: Final = frozenset({"greybox"})
"""Samplers that use accept lengths which no trial has measured."""

FEWEST_CONFIRMATION_BOOTS: Final = 4
"""Two of the baseline and two of a leader: fewer show nothing of how far boots of one configuration lie apart."""

CONFIRMATION_BOOTS: Final = 6
"""Of a service, where the study does not say."""

SOAK_S: Final = 600.0
"""The same; at 30 ms a step it is 20,000 steps."""

PROMPT_KINDS: Final = ("code", "chat", "reasoning", "long")
"""What prompts can be about."""

_TABLE_TAG: Final = "(table)"

Value = int | float | str | bool
SearchSpaceChoice = Annotated[
    Annotated[str, Tag("name")] | Annotated[SearchSpaceFile, Tag(_TABLE_TAG)],
    Discriminator(lambda value: "name" if isinstance(value, str) else _TABLE_TAG),
]
Switch = StrictBool
Whole = Annotated[int, Field(strict=True)]
Positive = Annotated[float, Field(gt=0, strict=True)]
Weight = Annotated[float, Field(gt=0, le=1e6, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
Mix = Annotated[dict[str, Weight], AfterValidator(_check_mix)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Seed = Annotated[int, Field(ge=0, strict=True), AfterValidator(_check_seed)]
SamplerSeed = Annotated[int, Field(ge=0, strict=True), AfterValidator(_check_sampler_seed)]
Line = Annotated[str, AfterValidator(_check_line)]
Variable = Annotated[str, AfterValidator(_check_variable)]
Host = Annotated[str, AfterValidator(_check_host)]


class _Section(BaseModel):
    """A table of a study file: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServerSettings(_Section):
    """The server to tune: how it is started and how long its phases may take."""

    dialect: Literal["sglang"] = Field("sglang", description="Flags, log lines and endpoints that the server speaks.")
    command: tuple[Line, ...] = Field(
        ("autotune", "serve"),
        min_length=1,
        description="Program and fixed arguments; parameters are appended. A first word `autotune` means this installation.",
    )
    environment: dict[Variable, Line] = Field(
        {}, description="Variables that every boot gets, beside those of the tuner."
    )
    proofs: tuple[str, ...] = Field(
        (),
        description="Properties this server is known to have (`proven_by` in the search space): lets configurations that are the same on it be measured once.",
    )
    host: Host = Field("127.0.0.1", description="Address the server listens on.")
    port: Whole = Field(30110, ge=1, le=65535, description="Port the server listens on.")
    api_key_variable: Variable | None = Field(
        None,
        description="Environment variable of the tuner that holds the API key of the server; the key itself is written "
        "nowhere. Default: none is sent.",
    )
    ready_timeout_s: Positive = Field(
        300.0, description="Longest time from start to the first checked generation, in seconds."
    )
    stall_timeout_s: Positive = Field(
        120.0,
        description="Longest time without progress (a new log line, another start-up phase) while starting, in seconds.",
    )
    stop_timeout_s: Positive = Field(
        60.0, description="Patience after SIGTERM before a server we started is killed, in seconds."
    )

    @model_validator(mode="after")
    def _command_leaves_the_address_to_the_settings(self) -> ServerSettings:
        for word in self.command:
            flag = word.partition("=")[0]
            if flag in ("--host", "--port"):
                msg = f"command holds {flag}: write server.{flag[2:]} instead, the tuner appends {flag} itself"
                raise ValueError(msg)
        if not self.command[0].strip():
            msg = "command starts with an empty word: name the program first"
            raise ValueError(msg)
        return self


class DeploymentSettings(_Section):
    """Where the server runs and who starts it."""

    kind: Literal["local", "systemd"] = Field(
        "local", description="`local`: a child process of the tuner on this machine; `systemd`: a service."
    )
    unit: Line | None = Field(None, description="Name of the service, for example `sglang-ddtree.service`.")
    host: Line | None = Field(
        None,
        description="Where the service runs, as `ssh` understands it: `root@gpu1`, an alias of ~/.ssh/config; leave it out when the tuner runs on that machine itself, which is best for a night.",
    )
    ssh_config: Line | None = Field(
        None, description="File to read instead of ~/.ssh/config, seen from the working folder."
    )
    data_path: Literal["direct", "tunnel", "on-host"] | None = Field(
        None,
        description="How requests reach the server: `direct` to its address, `tunnel` through SSH, `on-host` from the same machine. Default: `on-host` without a host, `tunnel` with one.",
    )
    arguments_variable: Variable = Field(
        "AUTOTUNE_ARGUMENTS",
        description="Variable with the tuned flags, for a unit that starts its server by a script; the script must expand it, unquoted, at the end of the server's command.",
    )
    lease_s: float = Field(
        600.0,
        ge=5,
        le=86400,
        strict=True,
        description="When the tuner is not heard of for so long, the host puts the baseline back by itself, in seconds.",
    )
    gpu_idle_mb: Count = Field(
        1024,
        description="Memory that a GPU may still hold when its server has stopped, in MiB; more means that something is left.",
    )

    @model_validator(mode="after")
    def _a_service_has_a_name(self) -> DeploymentSettings:
        if self.kind == "systemd" and self.unit is None:
            msg = 'unit is required with kind = "systemd": name the service'
            raise ValueError(msg)
        if self.kind == "local" and (self.unit is not None or self.host is not None):
            msg = 'unit and host need kind = "systemd"'
            raise ValueError(msg)
        if self.host is None and self.data_path in {"direct", "tunnel"}:
            msg = f"data_path = {self.data_path!r} needs a host; without one the tuner runs on the server's machine"
            raise ValueError(msg)
        if self.host is not None and self.data_path == "on-host":
            msg = "data_path = 'on-host' means that the tuner runs on the server's machine: leave host out, and run it there"
            raise ValueError(msg)
        return self


class SamplerSettings(_Section):
    """Who proposes the next configuration."""

    name: Literal["greybox", "gp", "tpe", "nsga2", "qmc", "random"] = Field(
        "greybox",
        description="`greybox` models accept length and step time apart; every other name is an Optuna sampler.",
    )
    startup_trials: Count = Field(
        6,
        description="Trials drawn at random before the sampler's model is used; `greybox` begins with one configuration of "
        "each arm and two sizes of tree instead.",
    )
    stop_when_exhausted: Switch = Field(
        True,
        description="End the search as soon as the sampler sees less left to win than boots differ by, never before 8 trials. "
        "Only `greybox` can see that.",
    )


class ProfileSettings(_Section):
    """One boot that logs what the drafter proposes, from which the accept lengths of other trees are replayed."""

    enabled: Switch | None = Field(
        None,
        description="Boot once for it, beside `--trials`, where the server can log its drafts. Default: where the sampler "
        "uses what it tells (`greybox`). Only `true` lets a hook into an SGLang server, also in a service.",
    )


class SamplingSettings(_Section):
    """How the server chooses tokens; stated in every request so that no server default can creep in."""

    temperature: float = Field(0.0, ge=0, strict=True, description="0 is greedy.")
    top_p: float = Field(1.0, gt=0, le=1, strict=True, description="Nucleus of the distribution; 1 is all of it.")
    top_k: Whole = Field(-1, ge=-1, description="Likeliest tokens kept; -1 is all.")
    seed: Seed = Field(
        1,
        description="Seed of the first request; every prompt and repeat gets its own, the same for all trials.",
    )
    thinking: Switch | None = Field(
        None, description="Asked for in `chat_template_kwargs`; leave out for models that do not think."
    )


class CellSettings(_Section):
    """One context length at one concurrency."""

    context: Count = Field(
        description="Prompt length in tokens, chat template included, counted by the server's usage; prompts are brought to "
        "exactly this length."
    )
    concurrency: Count = Field(description="Requests in flight.")
    requests: Count | None = Field(None, description="Requests per repeat; default: the concurrency, at least 4.")
    arrival_rate_per_s: Positive | None = Field(
        None,
        description="Requests a second, at random moments (Poisson, drawn from `sampling.seed`), at most `concurrency` of "
        "them in flight; default: a new request leaves as soon as one has ended.",
    )
    mix: Mix | None = Field(None, description="Kinds of prompts of this cell; default: those of `benchmark.mix`.")

    @property
    def cell(self) -> Cell:
        """The record of the same name."""
        return Cell(self.context, self.concurrency)


class StageSettings(_Section):
    """An ordered group of cells; the pruner decides after each stage."""

    name: str = Field(description="Shown in the display and in the reason of a pruned trial.")
    cells: tuple[CellSettings, ...] = Field(min_length=1, description="Measured in this order.")


class BenchmarkSettings(_Section):
    """What is sent to the server in each trial."""

    stages: tuple[StageSettings, ...] = Field(
        min_length=1,
        description="Busiest and most telling cell first, long contexts last. Over all stages, cells at concurrency 1 and "
        "at concurrency 32 are both required.",
    )
    output_tokens: Count = Field(512, description="Token limit of an answer.")
    repeats: Count = Field(2, description="Times each cell is measured inside one boot, with prompts of their own.")
    max_rounds: Count = Field(
        3,
        description="All repeats of a cell are sent again, at most so many times in all, until the noise inside the boot is "
        "a quarter of the variance between boots; 1 never sends them again.",
    )
    rounds_limit_s: Positive = Field(
        300.0, description="No further round of a cell is begun that would end later than this after its first request."
    )
    warmup_requests: Whole | None = Field(
        None, ge=0, description="Requests sent before a cell is measured; default: its concurrency."
    )
    ignore_eos: Switch = Field(
        False, description="Go on past the end of the answer; changes what is measured, so off by default."
    )
    mix: Mix = Field(
        {"code": 1.0},
        description="Share of each kind of prompt: `code` (Python modules), `chat` (advice over several turns), `reasoning` "
        "(word problems), `long` (a document and a request about it), for example `{ code = 2, chat = 1 }`.",
    )
    sampling: SamplingSettings = Field(SamplingSettings(), description="How tokens are chosen.")
    connect_timeout_s: Positive = Field(10.0, description="Limit for opening a connection.")
    first_token_timeout_s: Positive = Field(120.0, description="Limit from request to first token.")
    gap_timeout_s: Positive = Field(60.0, description="Limit between two chunks.")
    request_timeout_s: Positive = Field(600.0, description="Limit for a whole request.")
    min_success_rate: Share = Field(
        0.95,
        description="When fewer of all requests of a boot succeed, beyond chance (one-sided 99 % binomial bound), the trial fails.",
    )


class EvaluationSettings(_Section):
    """The coding evaluation of each trial."""

    enabled: Switch = Field(True, description="Off: pass@1 stays unknown and guards nothing.")
    problems: Count | None = Field(
        None, description="How many problems, a fixed subset stated by number; default: all."
    )
    problem_file: str | None = Field(
        None,
        description="HumanEval+ or MBPP+ as EvalPlus publishes them (JSON lines, also gzipped) instead of our problems; "
        "a path, seen from the folder of the study file.",
    )
    samples: Count = Field(1, description="Answers to each problem, each with a seed of its own.")
    concurrency: Count = Field(16, description="Answers asked for at once.")
    max_tokens: Count = Field(512, description="Token limit of an answer.")
    answers_limit_s: Positive = Field(
        1800.0, description="Wall time for all answers; what has not come by then counts as not answered."
    )
    time_limit_s: Positive = Field(5.0, description="Wall time that one judged program may take.")
    memory_limit_mb: Count = Field(512, description="Address space that one judged program may take.")
    isolation: Literal["required", "run generated code without isolation"] = Field(
        "required",
        description="Where the sandbox does not hold: refuse, or go on with the layers that do.",
    )
    sampling: SamplingSettings = Field(SamplingSettings(), description="How tokens are chosen.")

    @model_validator(mode="after")
    def _samples_differ(self) -> EvaluationSettings:
        if self.samples > 1 and self.sampling.temperature == 0:
            msg = "samples above 1 need sampling.temperature above 0: greedy answers to a problem are all the same"
            raise ValueError(msg)
        return self


class ObjectiveSettings(_Section):
    """How cells become objectives and which trials are feasible."""

    context_weights: dict[str, Weight] = Field(
        {}, description="Weight of each context length in a speed objective; default: equal."
    )
    max_context_loss: Share = Field(
        0.03, description="No context may lose more than this share of the baseline's speed."
    )
    pass_guard_alpha: Share = Field(
        0.05, description="One-sided level of the paired test that calls pass@1 worse than the baseline."
    )


class PruningSettings(_Section):
    """When a trial is stopped early."""

    enabled: Switch = Field(True, description="Stop trials that cannot reach the front any more.")
    threshold: Share = Field(
        0.05,
        description="A trial is stopped after a stage when the model gives its configuration less than this chance to be on "
        "the front by 2 % at least, times the share of its measuring time that is still ahead.",
    )


class ExportSettings(_Section):
    """Which point of the front is recommended."""

    rule: Literal["balanced", "c1", "c32"] = Field(
        "balanced",
        description="`balanced`: largest geometric mean of the two speed gains; `c1`, `c32`: the fastest at that concurrency.",
    )
    max_loss: Share = Field(
        0.0,
        description="The recommended point may lose at most this share of the baseline's speed at either concurrency.",
    )


class ConfirmationSettings(_Section):
    """Leaders against the baseline again, in fresh boots, after the search."""

    boots: Whole | None = Field(
        None,
        description="Boots at most, of leaders and baseline together: 0 for none, else at least 4; they are not counted in `--trials`. "
        "Default: 6 for a service, 0 for a server that the tuner starts itself.",
    )
    alpha: float = Field(
        0.04,
        gt=0,
        lt=0.5,
        strict=True,
        description="Chance that a leader without any gain is confirmed, over all leaders and looks of one confirmation together.",
    )
    soak_s: float | None = Field(
        None,
        ge=0,
        strict=True,
        description="How long a confirmed leader is loaded at C=32 before it is recommended, in seconds; 0 for not at all. Default: "
        "600 for a service, 0 for a server that the tuner starts itself.",
    )

    @model_validator(mode="after")
    def _boots_can_decide(self) -> ConfirmationSettings:
        if self.boots is not None and 0 < self.boots < FEWEST_CONFIRMATION_BOOTS:
            msg = f"boots = {self.boots} decides nothing: at least {FEWEST_CONFIRMATION_BOOTS}, two of the baseline and two of a leader, or 0"
            raise ValueError(msg)
        return self


class StudySettings(_Section):
    """One study: everything that decides what is measured."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the study and of its folder under `studies/`.")
    search_space: SearchSpaceChoice = Field(
        "ddtree",
        description="A file of `search_spaces/` by name, a path to one (`.toml`, seen from the working folder), or a table "
        "that says what such a file says.",
    )
    seed: SamplerSeed = Field(1, description="Seed of the sampler and of everything random on our side.")
    storage: str | None = Field(None, description="SQLAlchemy URL; default: SQLite in the study's folder.")
    server: ServerSettings = Field(ServerSettings(), description="The server to tune.")
    deployment: DeploymentSettings = Field(DeploymentSettings(), description="Where it runs.")
    baseline: dict[str, Value] = Field(description="The configuration that serves before and after the study.")
    try_: tuple[dict[str, Value], ...] = Field(
        (), alias="try", description="Configurations to run first, in this order."
    )
    sampler: SamplerSettings = Field(SamplerSettings(), description="Who proposes configurations.")
    profile: ProfileSettings = Field(ProfileSettings(), description="What is learned of accept lengths beforehand.")
    benchmark: BenchmarkSettings = Field(description="What is sent.")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="The coding evaluation.")
    objectives: ObjectiveSettings = Field(ObjectiveSettings(), description="What is maximised and what is refused.")
    pruning: PruningSettings = Field(PruningSettings(), description="When a trial is stopped early.")
    export: ExportSettings = Field(ExportSettings(), description="Which point is recommended.")
    confirmation: ConfirmationSettings = Field(
        ConfirmationSettings(), description="Whether the recommended point is really faster."
    )

    @property
    def search_space_name(self) -> str:
        """What the search space is called, wherever it is written."""
        return self.search_space if isinstance(self.search_space, str) else self.search_space.name

    @property
    def wants_profile(self) -> bool:
        """Whether drafts are to be logged, because the file says so or because the sampler uses them."""
        enabled = self.profile.enabled
        return self.sampler.name in SAMPLERS_WITH_ACCEPT_LENGTHS if enabled is None else enabled

    @property
    def confirmation_boots(self) -> int:
        """How many boots a confirmation has at most, as the file says or by what is tuned."""
        boots = self.confirmation.boots
        return (CONFIRMATION_BOOTS if self._is_service else 0) if boots is None else boots

    @property
    def soak_s(self) -> float:
        """How long a confirmed leader is loaded, in seconds, as the file says or by what is tuned."""
        soak_s = self.confirmation.soak_s
        return (SOAK_S if self._is_service else 0.0) if soak_s is None else soak_s

    @property
    def _is_service(self) -> bool:
        return self.deployment.kind == "systemd"

    @model_validator(mode="after")
    def _both_objectives_are_measured(self) -> StudySettings:
        measured = {cell.concurrency for stage in self.benchmark.stages for cell in stage.cells}
        for concurrency in (1, 32):
            if concurrency not in measured:
                msg = f"benchmark.stages has no cell at concurrency {concurrency}, which an objective needs"
                raise ValueError(msg)
        cells = [cell.cell for stage in self.benchmark.stages for cell in stage.cells]
        if len(set(cells)) != len(cells):
            msg = "benchmark.stages measures a cell twice: name each context and concurrency once"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _weights_name_contexts(self) -> StudySettings:
        contexts = {str(cell.context) for stage in self.benchmark.stages for cell in stage.cells}
        unknown = sorted(set(self.objectives.context_weights) - contexts)
        if unknown:
            msg = f"objectives.context_weights names contexts that no cell measures: {', '.join(unknown)}"
            raise ValueError(msg)
        return self


def parse_settings(text: str, where: str) -> StudySettings:
    """Turn the text of a study file into settings.

    Args:
        text: TOML.
        where: the file's name, for messages.

    Raises:
        SettingsError: the text is not TOML, a key is unknown (the nearest known key is named) or a value is wrong.
    """
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise SettingsError(
            "its tables and lists are nested too deeply", where=where, hint="see docs/settings.md for a working file"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"not valid TOML: {error}", where=where, hint="see docs/settings.md for a working file"
        ) from error
    try:
        return StudySettings.model_validate(data)
    except ValidationError as error:
        mistakes = explain_mistakes(error.errors(), StudySettings, _TABLE_TAG, NAME_PATTERN)
        said = mistakes[0] if len(mistakes) == 1 else "\n  ".join((f"{len(mistakes)} mistakes:", *mistakes))
        raise SettingsError(said, where=where, hint="see docs/settings.md") from error


def load_settings(path: Path) -> StudySettings:
    """Read and check one study file; what it says of files of its own is seen from its folder.

    Raises:
        SettingsError: the file cannot be read, or as :func:`parse_settings`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise SettingsError("there is no such file", where=str(path), hint="name an existing study file") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"cannot be read: {reason}", where=str(path), hint="name a study file") from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"is no text: byte {error.start} is not UTF-8", where=str(path), hint="save it as UTF-8"
        ) from error
    return _anchor(parse_settings(text, str(path)), path.absolute().parent)


def _anchor(settings: StudySettings, folder: Path) -> StudySettings:
    """Make the file of problems one that is found from every working folder."""
    evaluation = settings.evaluation
    if evaluation.problem_file is None:
        return settings
    path = str(folder / Path(evaluation.problem_file).expanduser())
    return settings.model_copy(update={"evaluation": evaluation.model_copy(update={"problem_file": path})})
