"""Which checks are there, and what does each look at? The table of ``docs/doctor.md`` is this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Area(Enum):
    """What a group of checks is about, in the order in which they are shown."""

    STUDY = "the study"
    """The file, the search space and what is stored."""
    MACHINE = "this machine"
    """Where the tuner runs."""
    WAY = "the way to the host"
    """The connection to the machine of the service."""
    RIGHTS = "rights on the host"
    """The commands that a night runs there."""
    UNIT = "the service"
    """The unit that is tuned."""
    HOST = "the host"
    """The machine of the service."""
    SERVER = "the server"
    """What answers at the address of the study."""
    NIGHT = "the night"
    """What to expect."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        area: its group.
        looks_at: what is looked at, and why it matters.
        advice: what to do when it finds something.
    """

    area: Area
    looks_at: str
    advice: str


CHECKS: Final[Mapping[str, Check]] = {
    # The study.
    "search space": Check(
        Area.STUDY,
        "Configurations that differ on this server, beside the trials asked for.",
        "Widen or correct the search space; ask for no more trials than it has configurations.",
    ),
    "listed": Check(
        Area.STUDY,
        "`[baseline]` and every `[[try]]`: they have to be configurations of the search space.",
        "Correct the value that is named.",
    ),
    "exercised": Check(
        Area.STUDY,
        "Parameters that change nothing in any cell: a window longer than every context, a threshold under greedy sampling.",
        "Add a cell that exercises the parameter, or take it out of the search space: its trials only measure noise.",
    ),
    "storage": Check(
        Area.STUDY,
        "The study's database: its folder can be written, or its server answers. No table is made.",
        "Make the folder writable, or correct `storage`.",
    ),
    "stored study": Check(
        Area.STUDY,
        "Settings and search space that the stored study was made with.",
        "Put the settings back to go on with it, or give the study another name.",
    ),
    "holder": Check(
        Area.STUDY,
        "Whether another command works on this study now.",
        "Wait for it to end, or stop it with Ctrl-C or SIGTERM.",
    ),
    "left behind": Check(
        Area.STUDY,
        "`host.json` in the study's folder: a command that was killed left the server changed.",
        "`autotune restore STUDY`; the next `optimize` does the same first.",
    ),
    # This machine.
    "sandbox": Check(
        Area.MACHINE,
        "Whether generated code can be locked in; a program that tries to get out is run.",
        "Linux 5.13 or newer with Landlock and seccomp, or `evaluation.enabled = false`, or `evaluation.isolation`.",
    ),
    "disk here": Check(
        Area.MACHINE,
        "Room for the study's records and logs.",
        "Make room, or choose another folder with --study-directory.",
    ),
    "processors and memory": Check(
        Area.MACHINE,
        "Room for the load generator, and for the server where it runs here.",
        "End what else runs here.",
    ),
    "other commands": Check(
        Area.MACHINE,
        "Whether another command measures, or judges generated programs, on this machine.",
        "Wait for it to end: what it takes of the machine would be in the figures.",
    ),
    "session": Check(
        Area.MACHINE,
        "Whether the tuner would end with this login: a terminal over SSH without tmux, `KillUserProcesses=yes`.",
        "Start it inside tmux or screen, or with `systemd-run --user`.",
    ),
    # The way to the host.
    "address": Check(
        Area.WAY,
        "Whether the machine of the service is reached, by name, port and jumps as `ssh` understands them.",
        "Try `ssh HOST true`; correct `deployment.host` or ~/.ssh/config.",
    ),
    "host key": Check(
        Area.WAY,
        "Whether the machine is the one it says it is. An unknown or changed key is never accepted.",
        "Log in once by hand and compare the key, or mend ~/.ssh/known_hosts.",
    ),
    "login": Check(
        Area.WAY,
        "Whether this user is let in without a password, by an agent or a key.",
        "Load the key into the agent, or put it into the host's authorized_keys.",
    ),
    "clocks": Check(
        Area.WAY,
        "How far the clock of the host is from the clock here: log lines and records carry both.",
        "Let both follow a time server (`timedatectl`).",
    ),
    # Rights.
    "tools": Check(
        Area.RIGHTS,
        "Programs that a night runs on the host.",
        "Install what is missing.",
    ),
    "sudo": Check(
        Area.RIGHTS,
        "Each command that needs root, by itself: `sudo` must run it without a password.",
        "Add the line that is printed, with `visudo`, or connect as root.",
    ),
    # The service.
    "systemd": Check(
        Area.UNIT,
        "Whether systemd runs the host, in a version that can do what is needed.",
        "systemd 247 or newer is needed.",
    ),
    "unit": Check(
        Area.UNIT,
        "Whether the service is there, loaded, and can be started and stopped by hand.",
        "Correct `deployment.unit`, or see `systemctl status UNIT`.",
    ),
    "state": Check(
        Area.UNIT,
        "Whether the service runs and stays up: no restart loop, no start limit hit.",
        "`journalctl -u UNIT` says why it ends; mend that first.",
    ),
    "files read": Check(
        Area.UNIT,
        "Whether a file of the unit changed since systemd read it: a restart would then bring back something else.",
        "Look at the change, then `systemctl daemon-reload`.",
    ),
    "running command": Check(
        Area.UNIT,
        "Whether what runs is what the unit starts: a restore brings back the unit's command.",
        "Restart the service once, or put into the unit what is to run.",
    ),
    "launch": Check(
        Area.UNIT,
        "How the unit starts its server: directly, from a line of a shell, from a script, in a container.",
        "A script must expand the variable of `deployment.arguments_variable`; start a container's server without one.",
    ),
    "type": Check(
        Area.UNIT,
        "`Type=`: a night needs one main process that stays.",
        "Use `Type=exec` or `Type=simple`; `Type=notify` where the server reports that it is ready.",
    ),
    "start timeout": Check(
        Area.UNIT,
        "`TimeoutStartSec=` where it bites (`Type=notify`, `forking`, a command before the start), beside `server.ready_timeout_s`.",
        "Raise `TimeoutStartSec=` of the unit: the baseline has to load within it when it is put back.",
    ),
    "stop timeout": Check(
        Area.UNIT,
        "`TimeoutStopSec=` beside `server.stop_timeout_s`: a server drains its requests after SIGTERM, and is killed then.",
        "Make both as long as the longest answer takes.",
    ),
    "restart": Check(
        Area.UNIT,
        "`Restart=`: switched off while trials run, as it was afterwards.",
        "Nothing has to be done.",
    ),
    "start limit": Check(
        Area.UNIT,
        "`StartLimitAction=`, `FailureAction=`, `SuccessAction=`: a failed trial must not reboot the machine.",
        "Take the action out of the unit for the night.",
    ),
    "kill mode": Check(
        Area.UNIT,
        "`KillMode=`: with `process` or `none` the workers of a stopped server live on and keep their memory.",
        "Use `KillMode=control-group` or `mixed`.",
    ),
    "run time": Check(
        Area.UNIT,
        "`RuntimeMaxSec=` and `WatchdogSec=`, which end a server in the middle of a trial.",
        "Take them out of the unit for the night.",
    ),
    "drop-ins": Check(
        Area.UNIT,
        "Drop-ins of others that sort after ours and set what a trial sets, and files of our name elsewhere.",
        "Rename or remove the file that is named, then `systemctl daemon-reload`.",
    ),
    "other units": Check(
        Area.UNIT,
        "Units that start this one or are started by it: sockets, timers, `OnFailure=`, whatever depends on it.",
        "Stop for the night what would start the service or raise an alarm.",
    ),
    "draft hook": Check(
        Area.UNIT,
        "Whether the hook of a profile (`[profile] enabled = true`) could log drafts in this service.",
        "Change what is named, or know that accept lengths are learned from trials alone.",
    ),
    # The host.
    "leftovers": Check(
        Area.HOST,
        "What an earlier command left: our drop-in, a lease and its holder, an apply or a rollback that never ended.",
        "`autotune restore STUDY`, `autotune rollback STUDY`, or wait for the holder: the finding says which.",
    ),
    "port": Check(
        Area.HOST,
        "Who listens on the server's port: the service, nobody, or somebody else, who is never stopped.",
        "Stop the other program, or correct `server.port`.",
    ),
    "disk there": Check(
        Area.HOST,
        "Room and writable disks for drop-in, record and journal.",
        "Make room.",
    ),
    "journal": Check(
        Area.HOST,
        "Whether the log of the service is in the journal and can be read: it says why a boot failed.",
        "Let the unit log to the journal; allow `journalctl`.",
    ),
    "journal limits": Check(
        Area.HOST,
        "Limits that make the journal drop lines of a server that writes many while it loads.",
        "Raise `RateLimitBurst=` in journald.conf or `LogRateLimitBurst=` of the unit.",
    ),
    "journal kept": Check(
        Area.HOST,
        "Whether the journal survives a reboot.",
        "`mkdir /var/log/journal`, or `Storage=persistent`.",
    ),
    "accelerators": Check(
        Area.HOST,
        "Whether the memory of the GPUs can be read (nvidia-smi, rocm-smi), and what they hold.",
        "Install the tool of the driver; without it a leftover process is not seen by its memory.",
    ),
    "accelerator errors": Check(
        Area.HOST,
        "Errors of GPUs in the kernel's log since the host started.",
        "See to the GPU first: what it measures cannot be trusted.",
    ),
    # The server.
    "api key": Check(
        Area.SERVER,
        "A server that wants an API key (`--api-key`): whether the setting names a variable that holds it.",
        "Name a variable in `server.api_key_variable` and export it where the tuner runs.",
    ),
    "data path": Check(
        Area.SERVER,
        "Round trip, with its interval, and chunk rate of the way that requests take, as a share of what is measured.",
        "Run the tuner on the host itself, or use another `deployment.data_path`.",
    ),
    "traffic": Check(
        Area.SERVER,
        "Requests of others that are in flight: a server that serves them is not stopped.",
        "Take the server out of the load balancer for the night.",
    ),
    "generation": Check(
        Area.SERVER,
        "A short generation, checked for text.",
        "See the server's log; a baseline that does not answer cannot be compared with.",
    ),
    "flags": Check(
        Area.SERVER,
        "What the server says it runs with, beside `[baseline]`; no invented accept lengths (`SGLANG_SIMULATE_ACC_LEN`).",
        "Correct `[baseline]`, or start the server as it says.",
    ),
    "thresholds": Check(
        Area.SERVER,
        "Accept thresholds below 1, which change what the server answers.",
        "Set them to 1, unless that loss is wanted.",
    ),
    "batch limits": Check(
        Area.SERVER,
        "Running requests and CUDA graphs of the server, beside the busiest cell.",
        "Raise `--max-running-requests` and `--cuda-graph-max-bs` to the largest concurrency.",
    ),
    "version": Check(
        Area.SERVER,
        "The version that the server names: a study is of one version.",
        "Nothing has to be done.",
    ),
    # The night.
    "end": Check(
        Area.NIGHT,
        "When the night ends: boots times loading plus measuring, by this study, by the journal or by the settings.",
        "Start earlier, allow more time, or ask for fewer trials.",
    ),
    "smallest gain": Check(
        Area.NIGHT,
        "The smallest gain that these boots can prove, from repeated boots of the baseline or from an assumption that is stated.",
        "Repeat the baseline, or measure longer, to prove smaller gains.",
    ),
}
