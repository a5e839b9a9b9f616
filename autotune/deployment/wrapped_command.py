"""Which program does a command run in the end, behind ``env``, ``numactl``, ``sudo`` and the like? Pure.

Arguments written at the end of such a command reach the program behind the wrappers, which is all that tuning needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

PREFIXES: Final = "-@:+!"
"""Signs that systemd allows before a program."""

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_CONTAINER_TOOLS: Final = re.compile(
    r"docker(-compose)?|podman(-compose)?|nerdctl|ctr|crictl|apptainer|singularity|kubectl|oc|k3s|microk8s|systemd-nspawn"
    r"|machinectl|lxc(-start|-execute|-attach)?|incus|enroot|udocker|ch-run|runc|crun"
)


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """How to skip a wrapper: its options that take a word of their own, and its words before the command."""

    valued: frozenset[str] = frozenset()
    words: int = 0
    subcommand: str | None = None
    takes_assignments: bool = False


def _wrapper(valued: str = "", words: int = 0, subcommand: str | None = None, *, assignments: bool = False) -> _Wrapper:
    return _Wrapper(frozenset(valued.split()), words, subcommand, assignments)


_WRAPPERS: Final[Mapping[str, _Wrapper]] = {
    "env": _wrapper("-u --unset -C --chdir", assignments=True),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c --class -n --classdata"),
    "numactl": _wrapper(
        "-i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -N --cpunodebind -m --membind "
        "-C --physcpubind"
    ),
    "taskset": _wrapper("", 1),
    "chrt": _wrapper("-T --sched-runtime -P --sched-period -D --sched-deadline", 1),
    "sudo": _wrapper(
        "-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -T --command-timeout "
        "-r --role -t --type -U --other-user",
        assignments=True,
    ),
    "doas": _wrapper("-u -C"),
    "runuser": _wrapper("-u --user -g --group -G --supp-group -s --shell -w --whitelist-environment"),
    "setpriv": _wrapper(
        "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --selinux-label "
        "--apparmor-profile --pdeathsig"
    ),
    "gosu": _wrapper("", 1),
    "su-exec": _wrapper("", 1),
    "chroot": _wrapper("", 1),
    "flock": _wrapper("-w --timeout -E --conflict-exit-code", 1),
    "stdbuf": _wrapper("-i --input -o --output -e --error"),
    "timeout": _wrapper("-k --kill-after -s --signal", 1),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "setarch": _wrapper("", 1),
    "prlimit": _wrapper(),
    "time": _wrapper("-f --format -o --output"),
    "exec": _wrapper("-a"),
    "command": _wrapper(),
    "tini": _wrapper("-p -e"),
    "dumb-init": _wrapper("-r --rewrite"),
    "systemd-cat": _wrapper("-t --identifier -p --priority --stderr-priority"),
    "systemd-inhibit": _wrapper(),
    "unshare": _wrapper(),
    "nsys": _wrapper("-o --output -t --trace -w -f -s -c -d -y", 0, "profile"),
    "uv": _wrapper(
        "-p --python --with --with-editable --with-requirements --extra --group --env-file --project --directory "
        "--package --index --index-url --extra-index-url --cache-dir --config-file",
        0,
        "run",
    ),
    "conda": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "mamba": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "micromamba": _wrapper("-n --name -p --prefix --cwd -r --root-prefix", 0, "run"),
    "poetry": _wrapper("-C --directory -P --project", 0, "run"),
    "pipenv": _wrapper("", 0, "run"),
    "pdm": _wrapper("-p --project", 0, "run"),
    "pixi": _wrapper("-e --environment --manifest-path", 0, "run"),
}


def program_name(word: str) -> str:
    """Return the name of a program without its folder and systemd's prefixes.

    >>> program_name("-@/usr/bin/bash")
    'bash'
    """
    return PurePath(word.lstrip(PREFIXES)).name


def skip_wrappers(command: Sequence[str]) -> int:
    """Return the index of the program that a command runs in the end; its length when there is none.

    >>> skip_wrappers(["/usr/bin/env", "A=1", "numactl", "-N", "0", "--", "/opt/venv/bin/python", "-m", "x"])
    6
    """
    index = 0
    while index < len(command):
        wrapper = _WRAPPERS.get(program_name(command[index]))
        following = None if wrapper is None else _skip(wrapper, command, index + 1)
        if following is None:
            return index
        index = following
    return len(command)


def runs_container(command: Sequence[str]) -> bool:
    """Whether a command starts its server inside a container.

    >>> runs_container(["sudo", "-u", "me", "docker", "run", "image"]), runs_container(["python3", "docker"])
    (True, False)
    """
    index = skip_wrappers(command)
    return index < len(command) and _CONTAINER_TOOLS.fullmatch(program_name(command[index])) is not None


def find_environment_wall(command: Sequence[str]) -> str | None:
    """Return the wrapper that starts its program with other variables than it has itself; ``None`` when none does.

    >>> find_environment_wall(["sudo", "-u", "me", "srv"]), find_environment_wall(["sudo", "-E", "srv"])
    ('sudo', None)
    """
    program = skip_wrappers(command)
    for index, word in enumerate(command[:program]):
        name = program_name(word)
        options = command[index + 1 : program]
        if name in {"sudo", "doas"} and not {"-E", "--preserve-env"} & set(options):
            return name
        if (name == "env" and {"-i", "-", "--ignore-environment"} & set(options)) or (
            name == "exec" and "-c" in options
        ):
            return f"{name} {options[0]}"
    return None


def _skip(wrapper: _Wrapper, command: Sequence[str], index: int) -> int | None:
    """Return where the wrapped command begins; ``None`` when the wrapper does something else."""
    words, wanted = wrapper.words, wrapper.subcommand
    while index < len(command):
        word = command[index]
        if word == "--" and wanted is None:
            return min(index + 1 + words, len(command))
        if word == "-" or (word.startswith("-") and len(word) > 1):
            index += 2 if word in wrapper.valued else 1
        elif wrapper.takes_assignments and _ASSIGNMENT.fullmatch(word):
            index += 1
        elif wanted is not None:
            if word != wanted:
                return None
            wanted = None
            index += 1
        elif words:
            words -= 1
            index += 1
        else:
            return index
    return len(command)
