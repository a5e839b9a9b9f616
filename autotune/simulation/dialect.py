"""How is the server of an imaginary machine asked? As SGLang is, but for what would go over the network."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search_space import SearchSpace
from autotune.servers.base import LaunchSpec, Phase, Probe
from autotune.servers.sglang import SglangDialect
from autotune.settings import ServerSettings
from autotune.simulation.host import SimulatedHost
from autotune.trial import Configuration, ParameterValue


class SimulatedDialect(SglangDialect):
    """Renders launches, reads logs and judges failures as for a real server; answers come from the machine itself.

    Args:
        space: the search space.
        server: settings of the study.
        host: the machine.
    """

    def __init__(self, space: SearchSpace, server: ServerSettings, host: SimulatedHost) -> None:
        super().__init__(space, server)
        self._host = host
        self._rendered: dict[tuple[str, ...], Configuration] = {}

    def render_launch(self, configuration: Configuration) -> LaunchSpec:
        """Return what to start, and remember what it means."""
        launch = super().render_launch(configuration)
        self._rendered[launch.command] = configuration
        return launch

    def configuration_of(self, launch: LaunchSpec) -> Configuration:
        """Return the configuration that a launch was rendered from."""
        return self._rendered[launch.command]

    def probe(self, url: str) -> Probe:  # noqa: ARG002  # there is one machine
        """Look whether the server can generate."""
        if self._host.is_ready:
            return Probe(Phase.READY, "generated ' a + b'")
        return Probe(Phase.REFUSED, "connection refused")

    def fetch_effective_flags(
        self,
        url: str,  # noqa: ARG002  # there is one machine
        environment: Mapping[str, str],  # noqa: ARG002  # all parameters are flags
    ) -> Mapping[str, ParameterValue]:
        """Return the flags of what runs."""
        configuration = self._host.configuration
        flags = {} if configuration is None else self._space.reported(configuration)
        return {**flags, "version": "simulated"}

    def count_requests(self, url: str) -> int | None:  # noqa: ARG002  # there is one machine
        """Nobody else uses it."""
        return 0
