"""A systemd service as its host has it loaded: what it starts, from which files, and how it stands right now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from autotune.deployment.unit_file import Word


class LaunchKind(Enum):
    """How a unit starts its server, which decides how flags can reach it."""

    DIRECT = "direct"
    """``ExecStart=`` is the server's own command."""
    SHELL = "shell"
    """A shell runs a line that ends in ``exec`` of the server's command."""
    SCRIPT = "script"
    """A script starts the server; it must expand a variable that holds the flags."""
    CONTAINER = "container"
    """A container tool starts the server; its flags are not reached from here."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One file of a unit: its own, or a drop-in.

    Attributes:
        path: absolute.
        text: its content, undecodable bytes escaped.
        mode: permission bits.
    """

    path: str
    text: str
    mode: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A service with all its drop-ins, as systemd has loaded it.

    Attributes:
        name: with its suffix ``.service``.
        files: its own file first, then its drop-ins in the order in which systemd reads them.
        argv: its only ``ExecStart=``: path of the program, then its arguments; specifiers are resolved, ``$`` variables
            are not.
        words: the same command as it is written in the files.
        environment: its ``Environment=``, resolved.
        unset_environment: its ``UnsetEnvironment=``.
        environment_files: its ``EnvironmentFile=``, without a leading ``-``.
        launch_kind: how the server is started.
        type: ``Type=``.
        restart: ``Restart=``.
        kill_mode: ``KillMode=``.
        user: ``User=``; ``root`` when it names none.
        timeout_start_s: ``TimeoutStartSec=``; ``None`` when there is no limit.
        timeout_stop_s: ``TimeoutStopSec=``; ``None`` when there is no limit.
        is_enabled: whether it starts with the host.
        needs_reload: whether a file changed since systemd read it.
        expands_variables: whether systemd replaces ``$NAME`` in the command; not behind the prefix ``:``.
        script: the script of a shell that starts the server, for :attr:`LaunchKind.SCRIPT`.
        file_variables: variable -> the ``EnvironmentFile=`` that sets it, which wins over ``Environment=``.
        unread_environment_files: those of which nobody could say what they set.
        hooks: setting and argument vector of each ``ExecStartPre=``, ``ExecStartPost=``, ``ExecStop=``, ``ExecStopPost=``.
    """

    name: str
    files: tuple[UnitFile, ...]
    argv: tuple[str, ...]
    words: tuple[Word, ...]
    environment: Mapping[str, str]
    unset_environment: tuple[str, ...]
    environment_files: tuple[str, ...]
    launch_kind: LaunchKind
    type: str
    restart: str
    kill_mode: str
    user: str
    timeout_start_s: float | None
    timeout_stop_s: float | None
    is_enabled: bool
    needs_reload: bool
    expands_variables: bool = True
    script: UnitFile | None = None
    file_variables: Mapping[str, str] = field(default_factory=dict)
    unread_environment_files: tuple[str, ...] = ()
    hooks: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UnitState:
    """How a service stands right now (``systemctl show``).

    Attributes:
        active_state: ``active``, ``activating``, ``deactivating``, ``inactive``, ``failed``, ``reloading``.
        sub_state: ``running``, ``auto-restart``, ``dead``, ...
        result: ``success``, ``exit-code``, ``signal``, ``oom-kill``, ``start-limit-hit``, ...
        restarts: ``NRestarts=``, restarts by systemd itself since the last start by hand.
        main_pid: ``MainPID=``; ``None`` when no process runs.
        exit_code: exit code of the last main process, negative for a signal; ``None`` when none has ended.
        invocation_id: id of this start; empty when it never ran.
        control_group: path below ``/sys/fs/cgroup``; empty when no process runs.
    """

    active_state: str
    sub_state: str
    result: str
    restarts: int
    main_pid: int | None
    exit_code: int | None
    invocation_id: str
    control_group: str

    @property
    def is_up(self) -> bool:
        """Whether a process runs or is about to."""
        return self.active_state in {"active", "activating", "reloading"}


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What the kernel says about one process.

    Attributes:
        command: its argument vector as it is now; some programs replace it by a title.
        environment: the variables it was started with; ``None`` when they may not be read.
        started_at: when it started, in seconds since 1970, to a hundredth of a second and as exact as the host's clock.
        cgroup: its control group, a path below the mounted hierarchy; empty when unknown.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] | None
    started_at: float
    cgroup: str
