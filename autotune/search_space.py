"""Which configurations exist, which of them are the same on this server, and how does one reach the server?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.trial import Configuration, ParameterValue


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a configuration reaches the server.

    Attributes:
        arguments: flags to append to the server's command.
        environment: variables to set; ``None`` removes an inherited one.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str | None]


class SearchSpace:
    """Parameters with their domains, rules and equivalences, read from one file of ``search_spaces/``."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in the order of the file."""
        raise NotImplementedError

    def resolve(self, values: Mapping[str, ParameterValue]) -> Configuration:
        """Fill in defaults, turn the word ``none`` into ``None``, check, and return the canonical form.

        Raises:
            SearchSpaceError: an unknown parameter, a value outside its domain, or a rule that is not met.
        """
        raise NotImplementedError

    def parse(self, text: str) -> Configuration:
        """Read ``budget=16,topk=4,window=none`` and resolve it."""
        raise NotImplementedError

    def canonicalise(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of all configurations that are the same on this server."""
        raise NotImplementedError

    def validate(self, configuration: Configuration) -> None:
        """Refuse a configuration outside the space; the message names the rule."""
        raise NotImplementedError

    def render_flags(self, configuration: Configuration) -> Rendering:
        """Return flags and variables for a canonical configuration."""
        raise NotImplementedError

    def reported(self, configuration: Configuration) -> Mapping[str, ParameterValue]:
        """Return what the server must report of this configuration: name in ``/server_info`` -> value."""
        raise NotImplementedError

    def describe(self, configuration: Configuration) -> str:
        """Render ``budget=16 topk=4 window=none``, for people; plain decoding reads ``plain``."""
        raise NotImplementedError

    def key(self, configuration: Configuration) -> str:
        """A stable string that is equal exactly for equal canonical forms; :meth:`parse` reads it back."""
        raise NotImplementedError

    def configurations(self) -> Iterator[Configuration]:
        """All canonical configurations that meet the rules, each once, in a fixed order."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many :meth:`configurations` there are."""
        raise NotImplementedError


def load_search_space(name: str, *, proofs: frozenset[str] = frozenset()) -> SearchSpace:
    """Read a search space by the name of a packaged one or by path."""
    raise NotImplementedError


def search_space_of(settings: object) -> SearchSpace:
    """The search space that a study names, with the equivalences that its server proves."""
    raise NotImplementedError
