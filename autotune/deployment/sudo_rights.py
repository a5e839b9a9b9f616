"""May this user do as root on the host what a night does there? Each command by itself, as sudo sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.lease import find_folder
from autotune.deployment.systemd_unit import TRIAL_DROP_IN
from autotune.errors import HostError, PermissionDenied

ROOT_COMMANDS: Final = ("cat", "install", "mv", "rm", "rmdir", "mkdir", "systemctl", "systemd-run", "journalctl")
"""What runs as root."""

_TIMEOUT_S: Final = 15.0
_ASK: Final = 'sudo -n -l -- "$@" >/dev/null || exit; sudo -n -- "$1" --version >/dev/null; exit 0'
"""What sudo lists as allowed may still ask for a password; only running it tells."""


class Right(Enum):
    """What sudo says to one command."""

    GIVEN = "given"
    """It runs without a password."""
    PASSWORD = "needs a password"  # noqa: S105 - a sentence
    """It would ask for a password."""
    REFUSED = "refused"
    """It does not run it at all."""


def check_rights(host: Host, unit: str) -> None:
    """See, before anything is changed, that everything which will be needed may be done; root may.

    Raises:
        PermissionDenied: a command is not allowed: begun without it, a night could not be ended.
    """
    if host.user_id == 0:
        return
    missing = find_missing(ask_rights(host, unit))
    if missing:
        raise PermissionDenied(
            f"sudo does not run: {say_missing(missing)}",
            where=host.name,
            hint=f"allow it: a line `{host.find_sudo_rule(tuple(missing))}` made with visudo, or connect as root; "
            "nothing was changed",
        )


def ask_rights(host: Host, unit: str) -> Mapping[str, Right]:
    """Ask sudo for each command that a night runs as root; nothing but ``--version`` is run.

    Raises:
        HostError: there is no sudo.
    """
    return {name: _ask(host, name, arguments) for name, arguments in list_uses(unit).items()}


def find_missing(rights: Mapping[str, Right]) -> Mapping[str, Right]:
    """Return the commands that sudo does not run without a password."""
    return {name: right for name, right in rights.items() if right is not Right.GIVEN}


def say_missing(missing: Mapping[str, Right]) -> str:
    """Name commands, and what sudo says to each."""
    return ", ".join(f"{name} ({right.value})" for name, right in missing.items())


def list_uses(unit: str) -> Mapping[str, Sequence[str]]:
    """Return, for each command, arguments as a night gives them: rules of sudo may look at them."""
    folder = f"/run/systemd/system/{unit}.d"
    drop_in = f"{folder}/{TRIAL_DROP_IN}"
    return {
        "cat": ("--", f"{find_folder(unit)}/record.json"),
        "install": ("-m", "0644", "--", "/dev/stdin", f"{drop_in}.new"),
        "mv": ("-f", "-T", "--", f"{drop_in}.new", drop_in),
        "rm": ("-f", "--", drop_in),
        "rmdir": ("--", folder),
        "mkdir": ("-p", "-m", "0755", "--", folder),
        "systemctl": ("daemon-reload",),
        "systemd-run": ("--quiet", "/bin/sh", f"{find_folder(unit)}/restore.sh"),
        "journalctl": ("--output=json", "--quiet", "--no-pager", f"--unit={unit}"),
    }


def _ask(host: Host, command: str, arguments: Sequence[str]) -> Right:
    output = host.run(("sh", "-c", _ASK, "ask", command, *arguments), timeout_s=_TIMEOUT_S, is_idempotent=True)
    if output.exit_code == 127:
        raise HostError("the host has no sudo", where=host.name, hint="install it, or connect as root")
    if b"password is required" in output.stderr:
        return Right.PASSWORD
    return Right.GIVEN if output.exit_code == 0 else Right.REFUSED
