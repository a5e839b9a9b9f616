"""Which key opens the server's API? It is read from an environment variable and written nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from autotune.errors import SettingsError

USUAL_VARIABLE: Final = "AUTOTUNE_API_KEY"
"""The variable that a study names unless its author chooses another one."""

_MASK = "[API key]"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that shows in no representation; only :attr:`headers` gives it away."""

    _secret: str = field(repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """What a request carries: a bearer token, as OpenAI's API and SGLang's ``--api-key`` want it."""
        return {"authorization": f"Bearer {self._secret}"}

    def is_one_of(self, command: Sequence[str], flag: str = "--api-key") -> bool:
        """Whether a command gives this very key to a flag.

        >>> ApiKey("sk-1").is_one_of(["x", "--api-key", "sk-1"]), ApiKey("sk-1").is_one_of(["x", "--api-key=sk-2"])
        (True, False)
        """
        given = {*(after for word, after in pairwise(command) if word == flag)}
        given |= {word.partition("=")[2] for word in command if word.startswith(f"{flag}=")}
        return self._secret in given

    def redact(self, text: str) -> str:
        """Put a mask where a text holds the key: servers like to repeat a key that they refuse.

        >>> ApiKey("sk-1").redact("invalid key sk-1")
        'invalid key [API key]'
        """
        return text.replace(self._secret, _MASK) if self._secret in text else text


def read_api_key(variable: str | None, environment: Mapping[str, str] = os.environ) -> ApiKey | None:
    """Read the key from the variable that the settings name; ``None`` when they name none.

    Raises:
        SettingsError: the variable is not set, empty, or no text for a header. The message does not hold its value.
    """
    if variable is None:
        return None
    secret = environment.get(variable, "").strip()
    if not secret:
        raise SettingsError(
            f"the environment variable {variable} is not set",
            where="server.api_key_variable",
            hint=f"export {variable} with the API key of the server, or remove the setting",
        )
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise SettingsError(
            f"what the environment variable {variable} holds is no API key",
            where="server.api_key_variable",
            hint="a key is printable ASCII in one line, without spaces",
        )
    return ApiKey(secret)
