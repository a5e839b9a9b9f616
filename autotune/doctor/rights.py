"""May this user do on the host what a night does there? Each command by itself, as sudo sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.sudo_rights import ROOT_COMMANDS, Right, ask_rights, find_missing, say_missing
from autotune.doctor.catalogue import Area
from autotune.doctor.examination import Examination
from autotune.doctor.finding import Judgement, ok, problem
from autotune.errors import HostError, PermissionDenied

TOOLS: Final = ("sh", "cat", "find", "flock", "head", "stat", "timeout", "busctl", "ss")
"""What runs as the user who logs in."""

_TIMEOUT_S = 15.0
_FIND = 'for name; do command -v -- "$name" || echo "missing $name"; done'


@dataclass(frozen=True, slots=True)
class Rights:
    """What sudo says.

    Attributes:
        user: name on the host.
        by_command: its answer for each of :data:`ROOT_COMMANDS`.
        paths: where each command is.
    """

    user: str
    by_command: Mapping[str, Right]
    paths: Mapping[str, str]


def examine_rights(exam: Examination, host: Host, unit: str) -> None:
    """Look for the programs, and ask sudo for each of them."""
    paths = exam.ask("tools", lambda: find_tools(host), judge_tools)
    if host.user_id == 0:
        exam.note("sudo", ok("commands run as root"))
    elif paths is not None:
        known = paths
        exam.ask("sudo", lambda: ask_sudo(host, unit, known), judge_rights)
    exam.skip_rest(Area.RIGHTS, "needs tools")


def find_tools(host: Host) -> Mapping[str, str | None]:
    """Return where each program is; ``None`` for one that is missing.

    Raises:
        HostError: the host does not say.
    """
    names = tuple(dict.fromkeys((*TOOLS, *ROOT_COMMANDS)))
    output = host.run(("sh", "-c", _FIND, "find", *names), timeout_s=_TIMEOUT_S, is_idempotent=True)
    lines = output.text.splitlines()
    if len(lines) != len(names):
        raise HostError(f"the host does not say where its programs are: {output.complaint}", where=host.name)
    return {name: None if line.startswith("missing ") else line for name, line in zip(names, lines, strict=True)}


def judge_tools(paths: Mapping[str, str | None]) -> Judgement:
    """Say which programs are missing."""
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        return problem(
            f"the host has no {', '.join(missing)}",
            "install what is missing (coreutils, util-linux, iproute2, systemd)",
        )
    return ok(f"{len(paths)} programs are there")


def ask_sudo(host: Host, unit: str, paths: Mapping[str, str | None]) -> Rights:
    """Ask sudo for each command that a night runs as root; nothing but ``--version`` is run.

    Raises:
        HostError: there is no sudo.
    """
    user = host.expect(("id", "-un"), host.run(("id", "-un"), timeout_s=_TIMEOUT_S, is_idempotent=True)).text.strip()
    known = {name: path or name for name, path in paths.items() if name in ROOT_COMMANDS}
    return Rights(user, ask_rights(host, unit), known)


def judge_rights(rights: Rights) -> Judgement:
    """Say which commands sudo does not run, and the line that allows them."""
    missing = find_missing(rights.by_command)
    if not missing:
        return ok(f"sudo runs {', '.join(rights.by_command)} without a password")
    line = f"{rights.user} ALL=(root) NOPASSWD: {', '.join(rights.paths.get(name, name) for name in missing)}"
    return problem(
        f"sudo does not run: {say_missing(missing)}",
        f"add this line with visudo -f /etc/sudoers.d/autotune: {line}",
        PermissionDenied,
    )
