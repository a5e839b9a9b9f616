"""Can the hook that logs drafts work in a service, and how do its variables get there? Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from autotune.deployment.lease import find_folder
from autotune.deployment.unit import ProcessFacts, Unit
from autotune.deployment.wrapped_command import skip_wrappers
from autotune.draft_hook import PATH_VARIABLE
from autotune.errors import UnitUnsupportedError

SANDBOX_PROPERTIES: Final = (
    "DynamicUser",
    "RootDirectory",
    "RootImage",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "InaccessiblePaths",
    "TemporaryFileSystem",
)
"""Properties of a service that decide what it sees of the host's files."""

_OTHER_USER: Final = frozenset({"chpst", "doas", "gosu", "runuser", "setpriv", "su", "su-exec", "sudo"})
_DEAF: Final = frozenset("IE")
"""Options of Python by which it ignores variables."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a service may see and write of its host's files (systemd.exec(5)).

    Attributes:
        properties: of :data:`SANDBOX_PROPERTIES`, as ``systemctl show`` says them.
    """

    properties: Mapping[str, str]

    def explain(self, folder: str) -> str | None:
        """Say why the service cannot write into a folder; ``None`` when no setting says so.

        Of several settings for paths above it, the longest path counts, as for systemd.

        >>> Sandbox({"ProtectSystem": "strict"}).explain("/run/x")
        'it may not write below /run (ProtectSystem=strict)'
        >>> Sandbox({"ProtectSystem": "strict", "ReadWritePaths": "-/run"}).explain("/run/x") is None
        True
        """
        if self._get("DynamicUser") == "yes":
            return "its user exists only while it runs (DynamicUser=yes), so no file can be given to it"
        root = next((name for name in ("RootDirectory", "RootImage") if self._get(name)), None)
        if root is not None:
            return f"it has another root than the host ({root}={self._get(root)})"
        for name in ("InaccessiblePaths", "TemporaryFileSystem"):
            if self._reach(name, folder):
                return f"it does not see {folder} ({name}={self._get(name)})"
        read_only = self._reach("ReadOnlyPaths", folder)
        writable = self._reach("ReadWritePaths", folder)
        if read_only > writable:
            return f"it may not write into {folder} (ReadOnlyPaths={self._get('ReadOnlyPaths')})"
        if self._get("ProtectSystem") == "strict" and not writable:
            return f"it may not write below /{PurePath(folder).parts[1]} (ProtectSystem=strict)"
        return None

    def _get(self, name: str) -> str:
        return self.properties.get(name, "")

    def _reach(self, name: str, folder: str) -> int:
        """Length of the longest path of a setting that is the folder or above it; 0 when there is none."""
        paths = [word.lstrip("-+").partition(":")[0] for word in self._get(name).split()]
        return max((len(path) for path in paths if PurePath(folder).is_relative_to(path)), default=0)


def find_hook_folder(unit_name: str) -> str:
    """Return where the hook of a service lies on its host: in the folder of the lease, below ``/run``."""
    return f"{find_folder(unit_name)}/draft-hook"


def find_environment_file(unit_name: str) -> str:
    """Return the file by which systemd gives the hook's variables to a service."""
    return f"{find_hook_folder(unit_name)}/environment"


def check_fit(unit: Unit, sandbox: Sandbox) -> None:
    """Refuse a service in which the hook could not write its log.

    Raises:
        UnitUnsupportedError: it could not; the message says why.
    """
    folder = find_hook_folder(unit.name)
    why = sandbox.explain(folder)
    wrappers = unit.argv[: skip_wrappers(unit.argv)]
    other = next((word for word in wrappers if PurePath(word).name in _OTHER_USER), None)
    if why is None and ":" in folder:
        why = f"its name holds a colon, so {PATH_VARIABLE} cannot name {folder}"
    if why is None and other is not None:
        why = f"{other} runs the server as another user than the unit's"
    if why is None and (option := _find_deaf_option(unit.argv[len(wrappers) :])) is not None:
        why = f"its Python ignores {PATH_VARIABLE} ({option})"
    if why is not None:
        raise UnitUnsupportedError(why, where=unit.name)


def find_python_path(unit: Unit, process: ProcessFacts | None) -> str:
    """Return the ``PYTHONPATH`` that a service has without the hook; empty when it has none.

    A running process of it knows for sure: systemd's own defaults and files of variables are in its environment.

    Raises:
        UnitUnsupportedError: nobody can say.
    """
    environment = None if process is None else process.environment
    if environment is not None:
        known = environment.get(PATH_VARIABLE, "")
        return ":".join(part for part in known.split(":") if part != find_hook_folder(unit.name)) if known else ""
    unread = (*unit.unread_environment_files, *filter(None, [unit.file_variables.get(PATH_VARIABLE)]))
    if unread:
        raise UnitUnsupportedError(
            f"its {PATH_VARIABLE} is not known: it does not run, and {unread[0]} may set it",
            where=unit.name,
            hint="start the service before the night",
        )
    if any(item.partition("=")[0] == PATH_VARIABLE for item in unit.unset_environment):
        return ""
    return unit.environment.get(PATH_VARIABLE, "")


def render_environment_file(variables: Mapping[str, str], where: str) -> str:
    r"""Render variables as a file for ``EnvironmentFile=`` (systemd.exec(5)).

    >>> print(render_environment_file({"A": 'a "b" $c'}, "x"), end="")
    A="a \"b\" \$c"

    Raises:
        UnitUnsupportedError: a value has control characters, which such a file cannot hold.
    """
    lines = []
    for name, value in variables.items():
        if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in value):
            raise UnitUnsupportedError(f"its {name} holds a control character", where=where)
        escaped = "".join(f"\\{char}" if char in '\\"$`' else char for char in value)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


def _find_deaf_option(words: Collection[str]) -> str | None:
    """Return the option by which an interpreter of Python ignores variables, if the command has one."""
    program, *options = [*words] or [""]
    if not PurePath(program).name.startswith("python"):
        return None
    for option in options:
        if not option.startswith("-") or option.startswith(("--", "-m", "-c")):
            return None
        if _DEAF & set(option):
            return option
    return None
