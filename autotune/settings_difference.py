"""May a stored study go on under these settings? Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from autotune.errors import StudyMismatchError
from autotune.settings import StudySettings

MAY_DIFFER: Final = (
    "storage",
    "try",
    "server.host",
    "server.port",
    "server.*_timeout_s",
    "benchmark.*_timeout_s",
    "pruning.enabled",
    "export.*",
)
"""Settings that change no figure of any trial: where, how long to wait, what to try next, what to recommend.

A star stands for one part of a key: the variable ``server.environment.read_timeout_s`` is none of them.
"""

_FREE: Final = re.compile("|".join(re.escape(pattern).replace(r"\*", "[^.]*") for pattern in MAY_DIFFER))
_SECRET: Final = re.compile(
    r"token|secret|passw|credential|auth|cookie|private|(^|[^a-z])(api|access)?_?key", re.IGNORECASE
)


def dump_settings(settings: StudySettings) -> dict[str, Any]:
    """Return settings as they are stored: without the storage's URL, which may hold a password."""
    return settings.model_dump(mode="json", by_alias=True, exclude={"storage"})


def load_settings_dump(stored: Mapping[str, Any], where: str) -> StudySettings:
    """Read stored settings; keys that a newer version added get their defaults.

    Raises:
        StudyMismatchError: another version wrote what this one cannot read.
    """
    try:
        return StudySettings.model_validate(stored)
    except ValidationError as error:
        raise StudyMismatchError(
            f"the stored settings cannot be read by this version: {error.error_count()} keys do not fit",
            where=where,
            hint="go on with the version that made the study, or name a new study",
        ) from error


def find_differences(stored: StudySettings, wanted: StudySettings) -> tuple[str, ...]:
    """Return one sentence for each setting that differs and may not, in the order of the keys."""
    before, after = _flatten(dump_settings(stored)), _flatten(dump_settings(wanted))
    return tuple(
        f"{key} was {_show(before, key)} and is now {_show(after, key)}"
        for key in sorted(before.keys() | after.keys())
        if (key in before, before.get(key)) != (key in after, after.get(key)) and not _FREE.fullmatch(key)
    )


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return every value by its dotted key; lists are values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _show(flat: Mapping[str, Any], key: str) -> str:
    if key not in flat:
        return "not set"
    if key == "server.command":
        return repr(_hide_words(flat[key]))
    variable = key.removeprefix("server.environment.")
    return "a hidden value" if variable != key and _SECRET.search(variable) else repr(flat[key])


def _hide_words(words: Sequence[str]) -> list[str]:
    """Return a command in which what follows a flag with a secret's name cannot be read."""
    shown: list[str] = []
    hide = False
    for word in words:
        flag, separator, _ = word.partition("=")
        is_flag = word.startswith("-")
        if hide and not is_flag:
            shown.append("(hidden)")
        else:
            shown.append(f"{flag}=(hidden)" if separator and is_flag and _SECRET.search(flag) else word)
        hide = is_flag and not separator and _SECRET.search(flag) is not None
    return shown
