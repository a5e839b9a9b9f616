"""A dialect whose server is ready some time after its start, on an imaginary host."""

# ruff: noqa: ARG002  # what an interface passes, an imaginary server does not need
from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.clock import Clock
from autotune.errors import ServerError
from autotune.search_space import SearchSpace
from autotune.servers.base import LaunchSpec, Phase, Probe, ServerDialect
from autotune.servers.sglang_log import classify_failure, find_fatal_line
from autotune.trial import Configuration, ParameterValue
from tests.deployment.fake import FakeDeployment


class FakeDialect(ServerDialect):
    """Flags are read back as they were given, unless ``reports`` says something else."""

    def __init__(self, clock: Clock, space: SearchSpace, *, ready_after_s: float = 10) -> None:
        self.clock = clock
        self.space = space
        self.ready_after_s = ready_after_s
        self.deployment: FakeDeployment | None = None
        self.reports: dict[str, ParameterValue] = {}
        self.requests: list[int | None] = []
        """Answers of ``count_requests`` to come; then 0."""

    def render_launch(self, configuration: Configuration) -> LaunchSpec:
        return LaunchSpec(("server", self.space.key(configuration)), {})

    def is_speculative(self, configuration: Configuration) -> bool:
        return configuration["budget"] != 0

    def probe(self, url: str) -> Probe:
        assert self.deployment is not None
        if self.deployment.alive_s < self.ready_after_s:
            return Probe(Phase.UNREADY, "status 503")
        return Probe(Phase.READY, "generated")

    def fetch_effective_flags(self, url: str, environment: Mapping[str, str]) -> Mapping[str, ParameterValue]:
        assert self.deployment is not None
        assert self.deployment.launch is not None
        return {"key": self.deployment.launch.command[1], "version": "1.0", **self.reports}

    def count_requests(self, url: str) -> int | None:
        return self.requests.pop(0) if self.requests else 0

    def find_mismatches(self, configuration: Configuration, effective: Mapping[str, ParameterValue]) -> tuple[str, ...]:
        key = self.space.key(configuration)
        return () if effective["key"] == key else (f"key is {effective['key']}, asked for {key}",)

    def find_configuration(self, effective: Mapping[str, ParameterValue]) -> Configuration | None:
        return next((item for item in self.space.configurations if self.space.key(item) == effective["key"]), None)

    def find_fatal_line(self, log_lines: Sequence[str]) -> str | None:
        return find_fatal_line(log_lines)

    def find_suspicion(self, configuration: Configuration, accept_length: float | None) -> str | None:
        return "broken drafter" if accept_length is not None and accept_length < 1.2 else None

    def classify_failure(self, log_lines: Sequence[str], exit_code: int | None) -> ServerError:
        return classify_failure(log_lines, exit_code)
