"""The SGLang dialect: launch command, checked generation, effective flags, and what a log says about a failed start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.api_key import ApiKey, read_api_key
from autotune.errors import HostError, MeasurementError, ServerError, SettingsError
from autotune.search_space import SearchSpace
from autotune.servers import sglang_log
from autotune.servers.base import DraftLogPlace, LaunchSpec, Phase, Probe, ServerDialect, load_hook
from autotune.servers.json_client import Unanswered, fetch, fetch_json
from autotune.servers.sglang_traffic import count_in_loads, count_in_metrics
from autotune.servers.simulated_acceptance import VARIABLES, find_simulation
from autotune.settings import ServerSettings, StudySettings
from autotune.trial import Configuration, ParameterValue

_EMBEDDED = ("autotune", "serve")
"""Beginning of the command that starts the embedded server, the one that logs drafts."""
_BEST_FIRST = "best-first-tree"
_TREE_RULES = (_BEST_FIRST, "depth-bonus-tree")
"""Properties without any of which the trees of other configurations cannot be built from a log."""
_PROBE_PROMPT = "def add(a, b):\n    return"
_PROBE_TOKENS = 8
_PROBE_TIMEOUT_S = 30.0
_INFO_TIMEOUT_S = 30.0
_LOOK_AGAIN_S = 2.0
_BROKEN_ACCEPT_LENGTH = 1.2
_SECRET_WORDS = ("api_key", "password", "secret", "credential", "auth_token", "access_token")


def logs_drafts(server: ServerSettings) -> bool:
    """Whether a server that the tuner starts logs its drafts by itself, and builds trees of the rule of the replay."""
    return server.command[:2] == _EMBEDDED and _BEST_FIRST in server.proofs


def wants_draft_hook(settings: StudySettings) -> bool:
    """Whether a study asks for a profile of an SGLang server, started on this machine or a service of systemd anywhere.

    The hook looks into a server's own code, so only a study that says ``enabled = true`` itself gets it.
    """
    is_embedded = settings.deployment.kind == "local" and settings.server.command[:1] == _EMBEDDED[:1]
    is_rule_known = any(rule in settings.server.proofs for rule in _TREE_RULES)
    return settings.profile.enabled is True and not is_embedded and is_rule_known


def can_log_drafts(settings: StudySettings) -> bool:
    """Whether a profile boot of a study would have a log: the server writes one by itself, or gets the hook."""
    is_ours_to_start = settings.deployment.kind == "local"
    return wants_draft_hook(settings) or (is_ours_to_start and logs_drafts(settings.server))


class SglangDialect(ServerDialect):
    """SGLang, and servers that speak its HTTP surface, flags and log lines.

    Args:
        space: how parameters reach the server and what it reports of them.
        server: command, environment and address of the study.
        pause: waits between two looks at the same thing.
        has_draft_hook: whether a profile loads the hook that logs drafts from within the server.

    Raises:
        SettingsError: the study asks for simulated acceptance.
    """

    def __init__(
        self,
        space: SearchSpace,
        server: ServerSettings,
        pause: Callable[[float], None] = time.sleep,
        *,
        has_draft_hook: bool = False,
    ) -> None:
        simulation = find_simulation(server.environment)
        if simulation is not None:
            raise SettingsError(
                f"{simulation} makes the server invent its accept lengths",
                where="server.environment",
                hint="remove it: nothing measured with it would be true",
            )
        self._space = space
        self._server = server
        self._pause = pause
        self._has_draft_hook = has_draft_hook

    def render_launch(self, configuration: Configuration) -> LaunchSpec:
        """Return what to start for a canonical configuration."""
        first, *rest = self._server.command
        program = (sys.executable, "-m", "autotune") if first == "autotune" else (first,)
        rendering = self._space.render_flags(configuration)
        address = ("--host", self._server.host, "--port", str(self._server.port))
        command = (*program, *rest, *rendering.arguments, *address)
        environment = {**self._server.environment, **rendering.environment, **dict.fromkeys(VARIABLES)}
        return LaunchSpec(command, environment, rendering.arguments)

    def render_profile(
        self, configuration: Configuration, place: DraftLogPlace, windows: Sequence[int]
    ) -> LaunchSpec | None:
        """Load the hook into SGLang, which has no log of drafts, or let the embedded server log one after every token."""
        launch = self.render_launch(configuration)
        if self._has_draft_hook:  # which sees full trees only: chains pass it by
            topk = self._find_topk(configuration)
            return None if topk is None else load_hook(launch, place, topk)
        if not logs_drafts(self._server):
            return None
        flags = ["--draft-log", place.log_path, "--draft-log-every-token"]
        if windows:
            flags += ["--draft-log-windows", ",".join(map(str, windows))]
        return replace(launch, command=(*launch.command, *flags))

    def _find_topk(self, configuration: Configuration) -> int | None:
        """Return how many tokens a full tree keeps for each position; ``None`` for a chain and for plain decoding."""
        reported = self._space.reported(configuration)
        names = ("speculative_ddtree_budget", "speculative_num_draft_tokens", "topk")
        budget, block, topk = (reported.get(name) for name in names)
        if not (type(budget) is int and type(block) is int and type(topk) is int):
            return None
        return topk if budget >= block else None

    def is_speculative(self, configuration: Configuration) -> bool:
        """Whether the configuration asks for a speculative algorithm."""
        return self._space.reported(configuration).get("speculative_algorithm") is not None

    def probe(self, url: str) -> Probe:
        """Ask for a few tokens and check that text came; the health endpoints are not asked."""
        sampling = {"temperature": 0.0, "max_new_tokens": _PROBE_TOKENS, "ignore_eos": True}
        try:
            status, body = fetch_json(
                f"{url}/generate",
                body={"text": _PROBE_PROMPT, "sampling_params": sampling},
                timeout_s=_PROBE_TIMEOUT_S,
                api_key=self._api_key,
            )
        except Unanswered as error:
            return Probe(Phase.REFUSED if error.is_refused else Phase.UNREADY, str(error))
        if status != 200:
            return Probe(Phase.UNREADY, f"status {status}")
        text = body.get("text") if isinstance(body, dict) else None
        if not isinstance(text, str) or not text.strip():
            return Probe(Phase.UNREADY, "a generation without text")
        return Probe(Phase.READY, f"generated {text[:60]!r}")

    def fetch_effective_flags(self, url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        """Return the scalar values of ``/server_info`` and, beside them, the parameters that only variables carry."""
        simulation = find_simulation(environment)
        if simulation is not None:
            raise HostError(
                f"the server runs with {simulation}, so it invents its accept lengths",
                where=url,
                hint="start it without this variable",
            )
        reported = self._fetch_info(url)
        for parameter in self._space.parameters.values():
            name, variable = parameter.reported_as, parameter.environment
            if name is not None and variable is not None and name not in reported:
                unset = None if parameter.unset is False else parameter.unset
                reported[name] = _parse_value(environment[variable]) if variable in environment else unset
        return reported

    def count_requests(self, url: str) -> int | None:
        """Ask its load reports, then its metrics, twice: their gauges are stale while it idles."""
        try:
            for path in ("/v1/loads", "/get_load"):
                status, body = fetch_json(f"{url}{path}", timeout_s=_INFO_TIMEOUT_S, api_key=self._api_key)
                if status == 200 and (count := count_in_loads(body)) is not None:
                    return count
            before = self._fetch_metrics(url)
            if before is None or not (count := count_in_metrics("", before)):
                return 0 if before is not None and count == 0 else None
            self._pause(_LOOK_AGAIN_S)
            after = self._fetch_metrics(url)
            return None if after is None else count_in_metrics(before, after)
        except Unanswered:
            return None

    def find_mismatches(self, configuration: Configuration, effective: Mapping[str, ParameterValue]) -> tuple[str, ...]:
        """Compare what the server reports with what was asked; a value that it keeps to itself is a mismatch."""
        return tuple(
            f"{name} is {_say(effective.get(name))}, asked for {_say(wanted)}"
            for name, wanted in self._space.reported(configuration).items()
            if not _is_same(effective.get(name), wanted)
        )

    def find_configuration(self, effective: Mapping[str, ParameterValue]) -> Configuration | None:
        """Look through the search space for what would be reported so."""
        found = [item for item in self._space.configurations if not self.find_mismatches(item, effective)]
        return found[0] if len(found) == 1 else None

    def find_fatal_line(self, log_lines: Sequence[str]) -> str | None:
        """Return the first line after which a starting server cannot become ready any more."""
        return sglang_log.find_fatal_line(log_lines)

    def find_free_memory(self, log_lines: Sequence[str]) -> float | None:
        """Return the memory in GB that the server left free on the fullest GPU."""
        return sglang_log.find_free_memory(log_lines)

    def find_suspicion(self, configuration: Configuration, accept_length: float | None) -> str | None:
        """Say so when speculation is on and hardly anything is accepted."""
        if not self.is_speculative(configuration) or accept_length is None or accept_length >= _BROKEN_ACCEPT_LENGTH:
            return None
        return (
            f"the accept length is {accept_length:.2f}: the drafter seems broken, "
            "because a working one has more than one token accepted in a few steps"
        )

    def classify_failure(self, log_lines: Sequence[str], exit_code: int | None) -> ServerError:
        """Say why a boot failed, from its log."""
        return sglang_log.classify_failure(log_lines, exit_code)

    @property
    def _api_key(self) -> ApiKey | None:
        """Read when it is needed: putting a server back needs none."""
        return read_api_key(self._server.api_key_variable)

    def _fetch_metrics(self, url: str) -> str | None:
        status, text = fetch(f"{url}/metrics", timeout_s=_INFO_TIMEOUT_S, api_key=self._api_key)
        return text.decode("utf-8", "replace") if status == 200 else None

    def _fetch_info(self, url: str) -> dict[str, ParameterValue]:
        """Read ``/server_info``, under its old name where it has no new one."""
        for path in ("/server_info", "/get_server_info"):
            try:
                status, body = fetch_json(f"{url}{path}", timeout_s=_INFO_TIMEOUT_S, api_key=self._api_key)
            except Unanswered as error:
                raise MeasurementError(f"the effective flags cannot be read: {error}", where=f"{url}{path}") from error
            if status == 404:
                continue
            if status != 200 or not isinstance(body, dict):
                raise MeasurementError(
                    f"the effective flags cannot be read: status {status}",
                    where=f"{url}{path}",
                    hint="ask it yourself with curl: it should answer a JSON object",
                )
            return _flatten(body)
        raise MeasurementError(
            "the server has no /server_info", where=url, hint="without it nothing proves which flags are measured"
        )


def _flatten(body: dict[str, Any]) -> dict[str, ParameterValue]:
    """Keep the scalar values, those of a nested ``server_args`` too, and drop what may be a secret."""
    nested = body.get("server_args")
    merged = {**body, **(nested if isinstance(nested, dict) else {})}
    return {
        name: value
        for name, value in merged.items()
        if (value is None or isinstance(value, (bool, int, float, str)))
        and not any(word in name.lower() for word in _SECRET_WORDS)
    }


def _is_same(reported: ParameterValue, wanted: ParameterValue) -> bool:
    """Compare values; true and 1 are not the same, 1 and 1.0 are."""
    return isinstance(reported, bool) == isinstance(wanted, bool) and reported == wanted


def _parse_value(text: str | None) -> ParameterValue:
    """Read the text of a variable as the number it is, if it is one."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _say(value: ParameterValue) -> str:
    return "none" if value is None else repr(value)
