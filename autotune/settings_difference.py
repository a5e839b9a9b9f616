"""May a stored study go on under these settings? Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from autotune.errors import StudyMismatchError
from autotune.settings import StudySettings

MAY_DIFFER: Final = (
    "storage",
    "try",
    "deployment.ssh_config",
    "deployment.lease_s",
    "deployment.gpu_idle_mb",
    "server.host",
    "server.port",
    "server.*_timeout_s",
    "benchmark.*_timeout_s",
    "evaluation.isolation",
    "profile.enabled",
    "pruning.enabled",
    "sampler.stop_when_exhausted",
    "export.*",
    "confirmation.*",
)
"""Settings that change no figure of any trial: where, how long to wait, what to try next, what to recommend.

Of ``deployment.host`` the user may differ too, and the path of ``evaluation.problem_file``: problems are compared by hash.

A star stands for one part of a key: the variable ``server.environment.read_timeout_s`` is none of them.
"""

_HOST: Final = "deployment.host"
_PROBLEM_FILE: Final = "evaluation.problem_file"
_ABSENT: Final = object()
_HIDDEN: Final = "a hidden value"
_SHORT: Final = 72
_BEFORE: Final = 16
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
    """Return one short sentence for each setting that differs and may not, in the order of the keys."""
    return tuple(_compare(dump_settings(stored), dump_settings(wanted), ""))


def _compare(before: Any, after: Any, key: str) -> Iterator[str]:
    """Go down into tables and into lists of as many tables; everything else is a value."""
    if before == after or _FREE.fullmatch(key) or (key == _HOST and _machine(before) == _machine(after)):
        return
    if key == _PROBLEM_FILE and before is not None and after is not None:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            inner = f"{key}.{name}" if key else name
            yield from _compare(before.get(name, _ABSENT), after.get(name, _ABSENT), inner)
    elif _is_tables(before) and _is_tables(after) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from _compare(*pair, f"{key}.{index}")
    else:
        was, now = (_write(value, key) for value in (before, after))
        yield f"{key} was {_cut(was, now)} and is now {_cut(now, was)}"


def _machine(host: Any) -> str | None:
    """Return a host without its user: whoever logs in, the same server is measured.

    >>> _machine("root@gpu1") == _machine("ssh://ann@gpu1") == _machine("gpu1")
    True
    """
    return host.removeprefix("ssh://").rpartition("@")[2] if isinstance(host, str) else None


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _write(value: Any, key: str) -> str:
    """Write a value as a study file has it, without secrets; a table by how much it holds."""
    if value is _ABSENT or value is None:
        return "not set"
    if isinstance(value, Mapping):
        return f"a table of {len(value)}"
    if _is_tables(value):
        names = [str(table["name"]) for table in value if "name" in table]
        return f"{len(value)} tables" + (f" ({', '.join(names)})" if names else "")
    variable = key.removeprefix("server.environment.")
    if variable != key and _SECRET.search(variable):
        return _HIDDEN
    return json.dumps(_hide_words(value) if key == "server.command" else value, ensure_ascii=False)


def _cut(text: str, other: str) -> str:
    """Cut a long value to where it begins to differ from the other."""
    if text == other:
        return _HIDDEN
    pairs = enumerate(zip(text, other, strict=False))
    same = next((index for index, (one, two) in pairs if one != two), min(len(text), len(other)))
    start = same - _BEFORE if len(text) > _SHORT else 0
    shown = text if start <= 0 else f"...{text[start:]}"
    return shown if len(shown) <= _SHORT else f"{shown[: _SHORT - 3]}..."


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
