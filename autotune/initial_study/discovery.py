"""What is there to know about a live service? Every question is asked of the host or of the server, and nothing is changed.

A question without an answer is one sentence of :attr:`Facts.unanswered`; only a service that cannot be tuned is an error.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

from autotune.api_key import USUAL_VARIABLE
from autotune.deployment.data_path import open_data_path
from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file
from autotune.deployment.process_command import expand_variables, has_title
from autotune.deployment.service_log import read_log_gap
from autotune.deployment.shell_line import find_line, find_program
from autotune.deployment.systemd_unit import TRIAL_DROP_IN
from autotune.deployment.unit import LaunchKind, ProcessFacts, Unit, UnitState
from autotune.deployment.unit_process import read_process
from autotune.deployment.unit_reader import read_state, read_unit
from autotune.doctor.journal import find_ready_after_s
from autotune.errors import (
    HostError,
    MeasurementError,
    SshError,
    UnitStateError,
    UnitUnsupportedError,
    UserError,
)
from autotune.found_configuration import find_flag
from autotune.initial_study.facts import HIDDEN, Facts, Gpu, Sampling, SourceFacts, hide_words, identify, is_secret
from autotune.initial_study.help_text import Flag, parse_help
from autotune.initial_study.request_lengths import RequestLengths, read_lengths
from autotune.initial_study.source_probe import find_interpreter, read_source
from autotune.search_space import load_search_space
from autotune.servers.sglang import SglangDialect
from autotune.settings import DeploymentSettings, ServerSettings
from autotune.trial import ParameterValue

DEFAULT_ADDRESS: Final = "127.0.0.1"
DEFAULT_PORT: Final = 30000
"""What SGLang listens on unless told otherwise."""

_QUICK_S: Final = 30.0
_HELP_S: Final = 120.0
_JOURNAL_S: Final = 60.0
_LOG_LINES: Final = 20_000
_LONGEST_LOAD_S: Final = 4 * 3600.0
_VARIABLES: Final = re.compile(
    r"(SGLANG|SGL|CUDA|HIP|ROCR|NCCL|RCCL|VLLM|HF|TORCH|TRITON|PYTORCH|FLASHINFER)_[A-Z0-9_]+"
)
_NO_GPU: Final = ("CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=")
_NVIDIA: Final = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_ROCM: Final = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9._:/@%+=,-]+")

_Answer = TypeVar("_Answer")


def discover(host: Host, deployment: DeploymentSettings) -> Facts:
    """Ask everything.

    Args:
        host: connected.
        deployment: names the service and the way to it.

    Raises:
        UserError: the service cannot be tuned as it is.
        HostError: the host does not answer, or the service is not in a state to be read.
    """
    return _Discovery(host, deployment).ask_all()


class _Discovery:
    """One look at one service."""

    def __init__(self, host: Host, deployment: DeploymentSettings) -> None:
        self._host = host
        self._deployment = deployment
        self._unanswered: list[str] = []
        self._unit: Unit = read_unit(host, deployment.unit or "", follows_alias=True)
        self._state: UnitState = read_state(host, self._unit.name)
        _check_tunable(self._unit, host.name)
        pid = self._state.main_pid
        self._process: ProcessFacts | None = None if pid is None else read_process(host, pid)

    def ask_all(self) -> Facts:
        """Ask everything once."""
        unit, process = self._unit, self._process
        environment = self._find_environment()
        command = self._find_command(environment)
        address = find_flag(command, "--host") or DEFAULT_ADDRESS
        port = _read_port(command, unit.name)
        settings = ServerSettings(api_key_variable=_find_key_variable(command))
        reported = self._ask("effective flags", lambda: self._fetch_flags(address, port, environment, settings))
        flags = self._find_flags(command, environment) if reported is None else {}
        supported = frozenset(map(identify, flags)) if flags else None if reported is None else frozenset(reported)
        interpreter = find_interpreter(command)
        model = find_flag(command, "--model-path", "--model")
        drafter = find_flag(command, "--speculative-draft-model-path", "--speculative-draft-model")
        algorithm = flags.get("--speculative-algorithm")
        return Facts(
            unit=unit.name,
            files=tuple(file.path for file in unit.files),
            launch_kind=unit.launch_kind.value,
            active_state=self._state.active_state,
            restart=unit.restart,
            timeout_start_s=unit.timeout_start_s,
            timeout_stop_s=unit.timeout_stop_s,
            command=hide_words(command),
            environment={name: HIDDEN if is_secret(name) else value for name, value in environment.items()},
            address=address,
            port=port,
            reported=reported,
            supported=supported,
            supported_by=None if supported is None else "--help" if reported is None else "/server_info",
            algorithms=() if algorithm is None else algorithm.choices,
            source=None
            if interpreter is None
            else self._ask("installed files", lambda: self._read_source(interpreter)),
            drafter_block=self._ask("drafter's block", lambda: self._read_block(drafter)),
            sampling=self._ask("model's sampling", lambda: self._read_sampling(model)),
            gpus=self._ask("GPUs", self._list_gpus),
            lengths=self._ask("request lengths", self._read_lengths),
            load_s=None if process is None else self._ask("load time", lambda: self._find_load_s(process)),
            log_gap=self._ask("log", lambda: read_log_gap(self._host, unit.name)),
            unanswered=tuple(self._unanswered),
        )

    def _ask(self, question: str, ask: Callable[[], _Answer | None]) -> _Answer | None:
        """Return an answer; a host that has gone is an error, everything else a sentence."""
        try:
            return ask()
        except SshError:
            raise
        except (HostError, MeasurementError) as error:
            self._unanswered.append(f"{question}: {error.message}")
            return None

    def _find_environment(self) -> Mapping[str, str]:
        """What the process has of what the unit sets and of what servers read; of the unit alone while nothing runs."""
        unit, process = self._unit, self._process
        if process is None or process.environment is None:
            if unit.environment_files:
                self._unanswered.append(
                    f"variables of {', '.join(unit.environment_files)}: the service does not run, or may not be looked at"
                )
            return dict(unit.environment)
        names = {*unit.environment, *unit.file_variables}
        return {
            name: value
            for name, value in process.environment.items()
            if name in names or _VARIABLES.fullmatch(name) is not None
        }

    def _find_command(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the server's own words: of the process while it runs, else of the unit.

        Raises:
            UnitStateError: only a running process would tell.
        """
        unit, process = self._unit, self._process
        if process is not None and not has_title(process.command) and any(w.startswith("--") for w in process.command):
            return process.command
        if unit.launch_kind is LaunchKind.DIRECT:
            return expand_variables(unit.argv, environment) if unit.expands_variables else unit.argv
        index = find_line(unit.argv)
        words = () if index is None or unit.launch_kind is not LaunchKind.SHELL else find_program(unit.argv[index])
        if words and all(_PLAIN_WORD.fullmatch(word) for word in words):
            return words
        raise UnitStateError(
            "the flags of its server are known to a shell only while nothing runs",
            where=f"{unit.name} on {self._host.name}",
            hint="start the service, wait until it serves, then run this again",
        )

    def _fetch_flags(
        self, address: str, port: int, environment: Mapping[str, str], settings: ServerSettings
    ) -> Mapping[str, ParameterValue] | None:
        if not self._state.is_up:
            self._unanswered.append(f"effective flags: the service is {self._state.active_state}")
            return None
        # Any search space does: the server is asked for everything it reports.
        dialect = SglangDialect(load_search_space("dflash"), settings)
        try:
            with open_data_path(self._deployment, address, port) as path:
                return dict(dialect.fetch_effective_flags(path.url, environment))
        except SshError as error:  # forwarding may be forbidden where commands are allowed
            raise HostError(f"the server cannot be reached through SSH: {error.message}", where=error.where) from error

    def _find_flags(self, command: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, Flag]:
        flags = self._ask("supported flags", lambda: self._read_help(command, environment))
        return flags or {}

    def _read_help(self, command: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, Flag]:
        """Ask the program for its help: as the service's user, at low priority, with no GPU in sight.

        Raises:
            HostError: it prints none.
        """
        program = command[: next((i for i, word in enumerate(command) if word.startswith("--")), len(command))]
        variables = [f"{name}={value}" for name, value in environment.items() if not is_secret(name)]
        output = self._host.run(
            (
                *self._as_user(),
                *("timeout", f"{_HELP_S:.0f}", "nice", "-n", "19", "env", *variables, *_NO_GPU, "COLUMNS=200"),
                *program,
                "--help",
            ),
            timeout_s=_HELP_S + _QUICK_S,
            is_idempotent=True,
        )
        flags = parse_help(output.text)
        if "--help" not in flags:
            raise HostError(f"--help of {' '.join(program)} prints no flags: {output.complaint}", where=self._host.name)
        return flags

    def _as_user(self) -> tuple[str, ...]:
        """What the server's own program runs behind: root does not run what another user may have written."""
        is_other = self._host.user_id == 0 and self._unit.user not in {"root", "0"}
        return ("runuser", "-u", self._unit.user, "--") if is_other else ()

    def _read_source(self, interpreter: str) -> SourceFacts | None:
        return read_source(self._host, interpreter, self._as_user())

    def _read_block(self, drafter: str | None) -> int | None:
        data = self._read_json(drafter, "config.json")
        nested = data.get("dflash_config")
        found = data.get("block_size", nested.get("block_size") if isinstance(nested, dict) else None)
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 1 else None

    def _read_sampling(self, model: str | None) -> Sampling | None:
        data = self._read_json(model, "generation_config.json")
        if not data or data.get("do_sample") is False:
            return Sampling(0.0, 1.0) if data else None
        numbers = [data.get(name) for name in ("temperature", "top_p")]
        temperature, top_p = (
            float(number)
            if isinstance(number, (int, float)) and math.isfinite(number) and 0 <= number <= limit
            else None
            for number, limit in zip(numbers, (10.0, 1.0), strict=True)
        )
        return Sampling(temperature, top_p or None)

    def _read_json(self, folder: str | None, name: str) -> Mapping[str, Any]:
        """Read one of the model's files; empty when it is a name of a hub, or has no such file."""
        if folder is None or not folder.startswith("/"):
            return {}
        data = read_file(self._host, str(PurePosixPath(folder, name)))
        if data is None:
            return {}
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise HostError(f"{folder}/{name} is no JSON: {error}") from error
        return found if isinstance(found, dict) else {}

    def _list_gpus(self) -> tuple[Gpu, ...] | None:
        output = self._host.run(_NVIDIA, timeout_s=_QUICK_S, is_idempotent=True)
        if output.exit_code == 0:
            return parse_nvidia(output.text)
        output = self._host.run(_ROCM, timeout_s=_QUICK_S, is_idempotent=True)
        return parse_rocm(output.text) if output.exit_code == 0 else None

    def _read_lengths(self) -> RequestLengths | None:
        command = (
            "journalctl",
            "--quiet",
            "--no-pager",
            "--output=cat",
            f"--lines={_LOG_LINES}",
            f"--unit={self._unit.name}",
        )
        output = self._host.run_as_root(command, timeout_s=_JOURNAL_S, is_idempotent=True)
        if output.exit_code != 0 and output.stderr.strip():
            raise HostError(f"the journal cannot be read: {output.complaint}", where=self._host.name)
        return read_lengths(output.text.splitlines())

    def _find_load_s(self, process: ProcessFacts) -> float | None:
        command = (
            "journalctl", "--quiet", "--no-pager", "--output=short-unix", f"--since=@{process.started_at - 2:.0f}",
            f"--until=@{process.started_at + _LONGEST_LOAD_S:.0f}", f"_SYSTEMD_INVOCATION_ID={self._state.invocation_id}",
        )  # fmt: skip
        output = self._host.run_as_root(command, timeout_s=_JOURNAL_S, is_idempotent=True)
        return find_ready_after_s(output.text, process.started_at)


def parse_nvidia(text: str) -> tuple[Gpu, ...]:
    r"""Read nvidia-smi's table of names and memory.

    >>> parse_nvidia("NVIDIA RTX PRO 6000, 97887\nOther, [N/A]\n")
    (Gpu(name='NVIDIA RTX PRO 6000', memory_mb=97887), Gpu(name='Other', memory_mb=None))
    """
    rows = [line.rpartition(",") for line in text.splitlines() if "," in line]
    return tuple(Gpu(name.strip(), int(size) if size.strip().isdecimal() else None) for name, _, size in rows)


def parse_rocm(text: str) -> tuple[Gpu, ...] | None:
    """Read rocm-smi's JSON of product names and memory; ``None`` when it is something else.

    >>> parse_rocm('{"card0": {"Card Series": "MI300X", "VRAM Total Memory (B)": "10485760"}}')
    (Gpu(name='MI300X', memory_mb=10),)
    """
    try:
        cards = json.loads(text[text.index("{") :])
        return tuple(
            Gpu(
                str(card.get("Card Series") or card.get("Card series") or name),
                int(card["VRAM Total Memory (B)"]) // 2**20 if "VRAM Total Memory (B)" in card else None,
            )
            for name, card in cards.items()
            if name.startswith("card")
        )
    except (ValueError, TypeError, AttributeError):
        return None


def _check_tunable(unit: Unit, host: str) -> None:
    """Refuse what no study can be made of.

    Raises:
        UnitUnsupportedError: its flags are out of reach.
        UnitStateError: a trial's drop-in is part of it.
    """
    where = f"{unit.name} on {host}"
    if unit.launch_kind is LaunchKind.CONTAINER:
        raise UnitUnsupportedError(
            "a container tool starts the server, so flags cannot be exchanged in the unit",
            where=where,
            hint='run the server itself as the service, or run autotune inside the container with kind = "local"',
        )
    if any(PurePosixPath(file.path).name == TRIAL_DROP_IN for file in unit.files):
        raise UnitStateError(
            "it runs with the drop-in of a trial, so what it shows is not what production runs",
            where=where,
            hint="wait until that study has ended, or run `autotune restore` for it",
        )


def _find_key_variable(command: Sequence[str]) -> str | None:
    """Return the variable that holds the key of a server that wants one; ``None`` also when nothing is in it."""
    return USUAL_VARIABLE if find_flag(command, "--api-key") is not None and os.environ.get(USUAL_VARIABLE) else None


def _read_port(command: Sequence[str], unit: str) -> int:
    text = find_flag(command, "--port")
    if text is None:
        return DEFAULT_PORT
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise UserError(f"--port {text} is no port", where=unit)
    return int(text)
