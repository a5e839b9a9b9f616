"""Everything that can go wrong in a night on a real host: a table of faults, when they strike, and what must come of it.

One entry a fault; the file is long because it is a table.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Final

from autotune.deployment.hook_fit import find_hook_folder
from tests.host.container import Container
from tests.host.scene import DROP_IN, LEASE, Action, Moment, Scene, any_time, exists, gone, later, said
from tests.host.service import PORT, UNIT, UNIT_PATH
from tests.host.tuner_process import Place, Tuner

ROOT_COMMANDS: Final = {
    name: f"/usr/bin/{name}"
    for name in ("cat", "install", "mv", "rm", "rmdir", "mkdir", "systemctl", "systemd-run", "journalctl")
}
"""What a tuner runs as root, each to be allowed by sudo."""

SLOW_STEPS: Final = {"fault": "slow steps", "seconds": 0.03}
"""The rule that makes a cell last for seconds, so that a fault can strike inside it, without work for the processor."""

DONE: Final = frozenset({"complete"})
BLAMED: Final = frozenset({"infeasible"})
NOT_BLAMED: Final = frozenset({"complete", "interrupted", "failed"})


class Step(Enum):
    """What happens after the tuner that met the fault has ended."""

    HOST_ITSELF = "the host restores itself"
    """Nobody does anything until the lease is over and the host looks as before."""
    HEAL = "the fault is over"
    """The cable is plugged, the squatter leaves, ..."""
    RESTORE = "autotune restore"
    """By hand."""
    OPTIMIZE = "autotune optimize"
    """The same command again goes on to the end of the study."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        name: for people and for ``-k``.
        moment: when it strikes; ``None``: it is there from the beginning.
        action: what strikes.
        rules: what the stand-in server does wrong, see ``stand_in_server.py``.
        arrange: prepares the host before anybody looks at it.
        heal: ends the fault.
        steps: what follows.
        exit_codes: of the tuner that meets it; empty: any.
        says: words that the tuner must say, one of each group at least.
        states: how the trial with this budget must end in the study; the last one counts.
        reason: words in the reason of the trial with this budget.
        is_untouched: whether the server found must be the same process afterwards.
        deployment: keys of the study's ``[deployment]``.
        server: keys of its ``[server]``.
        place: where the tuner has to run; ``None``: anywhere.
        unit: options of the unit, see ``render_unit``.
        is_slow: whether each step of the server takes so long that a cell lasts for seconds.
        trials: ``--trials``.
        is_remote: whether it makes sense only for a tuner on another machine.
        is_profiled: whether trial 1 is a profile, whose server loads the hook that logs drafts.
    """

    name: str
    moment: Moment | None = None
    action: Action | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    arrange: Callable[[Container], None] | None = None
    heal: Action | None = None
    steps: tuple[Step, ...] = ()
    exit_codes: frozenset[int] = frozenset({0})
    says: tuple[str, ...] = ()
    states: Mapping[int, frozenset[str]] = field(default_factory=lambda: {0: DONE, 8: DONE})
    reason: Mapping[int, str] = field(default_factory=dict)
    is_untouched: bool = False
    deployment: Mapping[str, object] = field(default_factory=dict)
    server: Mapping[str, object] = field(default_factory=dict)
    place: Place | None = None
    unit: Mapping[str, Any] = field(default_factory=dict)
    is_slow: bool = False
    trials: int = 2
    is_remote: bool = False
    is_profiled: bool = False


MEASURING: Final = said("trial 1: reading the effective flags")
PHASES: Final[Mapping[str, Moment]] = {
    "stop": said("trial 1: stopping the server"),
    "start": said("trial 1: starting the server"),
    "load": said("trial 1: waiting for the server"),
    "bench": MEASURING,
    "restore": said("restoring the host"),
}


def list_groups(oom_after_s: float = 3.0) -> dict[str, list[Fault]]:
    """Return the whole table, by who is to blame.

    Args:
        oom_after_s: when the server ends whose memory does not suffice.
    """
    return {
        "the server": _list_bad_servers(oom_after_s),
        "the host": _list_bad_hosts(),
        "sudo": _list_rights(),
        "other people": _list_other_people(),
        "the network": _list_cables(),
        "the tuner": _list_deaths(),
        "the profile": _list_profiles(),
    }


def list_faults(oom_after_s: float = 3.0) -> list[Fault]:
    """Return the whole table in one list."""
    return [fault for group in list_groups(oom_after_s).values() for fault in group]


def _list_bad_servers(oom_after_s: float) -> list[Fault]:
    """The server itself fails with one configuration: plain decoding."""
    twice = "failed twice while the baseline works"
    quick = {"ready_timeout_s": 15.0, "stall_timeout_s": 10.0}  # of healthy boots too, on a busy machine
    return [
        Fault(
            "crash at start",
            rules=({"fault": "crash", "budgets": [0]},),
            states={0: BLAMED, 8: DONE},
            reason={0: twice},
        ),
        Fault(
            "crash at start, once",
            rules=({"fault": "crash", "budgets": [0], "times": 1},),
            says=("tried once more",),
        ),
        Fault(
            "refused arguments",
            rules=({"fault": "refuse", "budgets": [0]},),
            states={0: BLAMED, 8: DONE},
            reason={0: "refused its arguments"},
        ),
        Fault(
            "never ready, silent",
            rules=({"fault": "silent", "budgets": [0]},),
            states={0: BLAMED, 8: DONE},
            reason={0: "ServerNeverReady"},
            server=quick,
        ),
        Fault(
            "never ready, 503",
            rules=({"fault": "unready", "budgets": [0]},),
            states={0: BLAMED, 8: DONE},
            reason={0: "ServerNeverReady"},
            server=quick,
        ),
        Fault(
            f"out of memory after {oom_after_s:g} s",
            rules=({"fault": "out of memory", "budgets": [0], "seconds": oom_after_s},),
            states={0: BLAMED, 8: DONE},
            reason={0: "OutOfMemory"},
            server={"stall_timeout_s": oom_after_s + 15, "ready_timeout_s": oom_after_s + 30},
        ),
        Fault(
            "dies in a cell",
            rules=({"fault": "dies", "budgets": [0]},),
            states={0: BLAMED, 8: DONE},
            reason={0: twice},
        ),
        Fault("drains slowly", rules=({"fault": "drains", "seconds": 5},)),
        Fault(
            "deaf to SIGTERM for longer than its unit allows",
            rules=({"fault": "drains", "seconds": 8},),
            unit={"extra": "TimeoutStopSec=3\n"},
        ),
        Fault(
            "escapes and holds GPU memory",
            rules=({"fault": "escapes", "budgets": [0]},),
            heal=_kill_escaped,
            steps=(Step.HEAL, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            says=("GPU",),
        ),
    ]


def _list_bad_hosts() -> list[Fault]:
    """The host is not as it should be."""
    return [
        Fault("start limit nearly hit", arrange=_restart_often),
        Fault(
            "rebooted in mid-trial",
            is_remote=True,
            moment=MEASURING,
            action=_reboot,
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({3}),
            is_slow=True,
        ),
        Fault(
            "power lost while loading",
            is_remote=True,
            moment=PHASES["load"],
            action=_lose_power,
            rules=({"fault": "slow", "budgets": [0], "seconds": 1, "times": 1},),
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({3}),
        ),
        Fault(
            "power lost, service not enabled",
            is_remote=True,
            arrange=_disable,
            moment=MEASURING,
            action=_lose_power,
            steps=(Step.RESTORE,),
            exit_codes=frozenset({3}),
            states={},
            is_slow=True,
        ),
        Fault(
            "service off before, tuner killed",
            arrange=_turn_off,
            moment=MEASURING,
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.HOST_ITSELF, Step.OPTIMIZE),
            exit_codes=frozenset({-signal.SIGKILL}),
            deployment={"lease_s": 5.0},
            is_slow=True,
            is_remote=True,
        ),
        Fault(
            "somebody else on the GPUs before",
            arrange=_share_gpus,
            exit_codes=frozenset({3}),
            says=("holds 5000 MiB of GPU 0, and is not of the service",),
            states={},
            is_untouched=True,
        ),
        Fault(
            "the log goes to a file",
            arrange=_log_to_file,
            rules=({"fault": "crash", "budgets": [0]},),
            says=("the service's log goes to a file, not to the journal",),
            states={0: BLAMED, 8: DONE},
            reason={0: "its log could not be read"},
        ),
        Fault(
            "systemd starts itself anew",
            arrange=_prepare_start_of_systemd,
            moment=exists(LEASE),
            action=_start_systemd_anew,
            is_remote=True,
        ),
        Fault(
            "port taken in mid-night",
            moment=PHASES["stop"],
            action=_take_port,
            heal=lambda scene: scene.end_started(),
            steps=(Step.HEAL, Step.RESTORE, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            says=("port",),
        ),
        Fault(
            "port taken before",
            arrange=_take_port_before,
            exit_codes=frozenset({3}),
            says=("left alone",),
            states={},
            is_untouched=True,
        ),
        Fault(
            "foreign later drop-in",
            arrange=_add_later_drop_in,
            exit_codes=frozenset({2, 3}),
            says=("zzzz-site.conf",),
            states={},
            is_untouched=True,
        ),
        Fault(
            "foreign later drop-in in mid-night",
            moment=MEASURING,
            action=lambda scene: _add_later_drop_in(scene.host, is_restarted=False),
            heal=_remove_later_drop_in,
            steps=(Step.HEAL, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            says=("zzzz-site.conf",),
            is_slow=True,
        ),
        Fault(
            "drop-in of our name in /etc",
            arrange=lambda host: _add_drop_in(host, f"{UNIT_PATH}.d/zzz-autotune-trial.conf"),
            exit_codes=frozenset({2, 3}),
            says=("zzz-autotune-trial.conf",),
            states={},
            is_untouched=True,
        ),
    ]


def _list_rights() -> list[Fault]:
    """One command that a night runs as root is not allowed."""
    return [
        Fault(
            f"sudo without {name}",
            arrange=partial(_forbid, name=name),
            exit_codes=frozenset({3}),
            says=(name,),
            states={},
            is_untouched=True,
            place=Place.USER,
        )
        for name in ROOT_COMMANDS
    ]


def _list_other_people() -> list[Fault]:
    """Others use the server, or tune it too."""
    return [
        Fault(
            "foreign traffic in a cell",
            moment=MEASURING,
            action=lambda scene: _send_traffic(scene, seconds=1, running=16),
            says=("others used the server",),
            is_slow=True,
        ),
        Fault(
            "foreign traffic before a stop",
            moment=said("trial 0 complete"),
            action=lambda scene: _send_traffic(scene, seconds=20),
            heal=lambda scene: scene.end_started(),
            steps=(Step.HEAL, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            says=("of others",),
            is_slow=True,
        ),
        Fault(
            "a second tuner",
            moment=MEASURING,
            action=_send_second_tuner,
            is_slow=True,
            is_remote=True,
        ),
        *(
            Fault(
                f"{name} to the tuner",
                moment=MEASURING,
                action=partial(_send_signal, number=number),
                exit_codes=frozenset({128 + number}),
                steps=(Step.OPTIMIZE,),
                is_slow=True,
                is_remote=True,
            )
            for name, number in (("SIGINT", signal.SIGINT), ("SIGTERM", signal.SIGTERM), ("SIGHUP", signal.SIGHUP))
        ),
    ]


def _list_cables() -> list[Fault]:
    """The network fails in each phase: for a moment, and for longer than the lease."""
    short = [
        Fault(
            f"cable pulled for 3 s: {phase}",
            moment=moment,
            action=lambda scene: _pull(scene, seconds=3),
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({0, 3}),
            is_slow=phase == "bench",
        )
        for phase, moment in PHASES.items()
    ]
    long = [
        Fault(
            f"cable pulled for good: {phase}",
            moment=moment,
            action=lambda scene: scene.host.link(is_up=False),
            heal=lambda scene: scene.host.link(is_up=True),
            steps=(Step.HOST_ITSELF, Step.HEAL, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            deployment={"lease_s": 12.0},
            is_slow=phase == "bench",
        )
        for phase, moment in PHASES.items()
    ]
    return [replace(fault, is_remote=True) for fault in (*short, *long)]


def _list_deaths() -> list[Fault]:
    """The tuner dies, or sleeps."""
    moments: dict[str, Moment] = {
        "connecting": later(0.8, lambda _scene: True),
        "lease taken": exists(LEASE),
        "trial 0 measured": said("trial 0: stage busy"),
        "stopping": PHASES["stop"],
        "stopped": later(0.4, PHASES["stop"]),
        "drop-in written": exists(DROP_IN),
        "starting": PHASES["start"],
        "loading": PHASES["load"],
        "ready": MEASURING,
        "between two cells": said("trial 1: stage busy"),
        "second trial": said("trial 2: starting the server"),
        "restoring": PHASES["restore"],
        "drop-in removed": gone(DROP_IN),
    }
    kills = [
        Fault(
            f"kill -9: {name}",
            moment=moment,
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.RESTORE, Step.OPTIMIZE) if number % 2 else (Step.OPTIMIZE,),
            exit_codes=frozenset({-9}),
        )
        for number, (name, moment) in enumerate(moments.items())
    ]
    others = [
        Fault(
            "kill -9: at any time",
            moment=any_time(12.0),
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({-9, 0}),
        ),
        Fault(
            "tuner gone for good",
            moment=MEASURING,
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.HOST_ITSELF,),
            exit_codes=frozenset({-9}),
            states={},
            deployment={"lease_s": 10.0},
        ),
        Fault(
            "tuner gone for good while loading",
            moment=PHASES["load"],
            action=lambda scene: scene.tuner.kill(),
            rules=({"fault": "slow", "budgets": [0], "seconds": 2},),
            steps=(Step.HOST_ITSELF, Step.OPTIMIZE),
            exit_codes=frozenset({-9}),
            deployment={"lease_s": 10.0},
        ),
        Fault(
            "asleep for longer than the lease",
            moment=MEASURING,
            action=_send_to_sleep,
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({3}),
            deployment={"lease_s": 10.0},
            is_slow=True,
        ),
    ]
    return [replace(fault, is_remote=True) for fault in (*kills, *others)]


def _list_profiles() -> list[Fault]:
    """Something happens while the server logs its drafts."""
    hook = exists(find_hook_folder(UNIT))
    faults = [
        Fault(
            "kill -9 in a profile: hook placed",
            moment=hook,
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({-9}),
        ),
        Fault(
            "kill -9 in a profile: measuring",
            moment=MEASURING,
            action=lambda scene: scene.tuner.kill(),
            steps=(Step.HOST_ITSELF, Step.OPTIMIZE),
            exit_codes=frozenset({-9}),
            deployment={"lease_s": 10.0},
        ),
        Fault(
            "cable pulled for good in a profile",
            moment=MEASURING,
            action=lambda scene: scene.host.link(is_up=False),
            heal=lambda scene: scene.host.link(is_up=True),
            steps=(Step.HOST_ITSELF, Step.HEAL, Step.OPTIMIZE),
            exit_codes=frozenset({3}),
            deployment={"lease_s": 12.0},
        ),
        Fault(
            "rebooted in a profile",
            moment=MEASURING,
            action=_reboot,
            steps=(Step.OPTIMIZE,),
            exit_codes=frozenset({3}),
        ),
        Fault(
            "dies in a profile",
            rules=({"fault": "dies", "budgets": [16], "times": 1},),
            says=("accept lengths are learned from trials alone: the profile failed",),
        ),
    ]
    return [replace(fault, is_remote=True, is_slow=fault.moment is not None, is_profiled=True) for fault in faults]


_SQUATTER: Final = f"/usr/bin/python3 -m http.server {PORT}"
_WAITING_SQUATTER: Final = f"""
import socket, time
while True:
    try:
        with socket.create_server(("0.0.0.0", {PORT})) as listener:
            time.sleep(600)
    except OSError:
        time.sleep(0.001)
"""
_TRAFFIC: Final = rf"""
import json, re, sys, threading, time, urllib.request
def count_running():
    text = urllib.request.urlopen("http://127.0.0.1:{PORT}/metrics", timeout=30).read().decode()
    return float(re.search(r"num_running_reqs\S* (\S+)", text)[1])
while count_running() < int(sys.argv[2]):
    time.sleep(0.02)
end = time.monotonic() + float(sys.argv[1])
body = json.dumps({{"messages": [{{"role": "user", "content": "hello"}}], "max_tokens": 200}}).encode()
def ask():
    while time.monotonic() < end:
        request = urllib.request.Request("http://127.0.0.1:{PORT}/v1/chat/completions", body)
        try:
            urllib.request.urlopen(request, timeout=30).read()
        except OSError:
            time.sleep(0.05)
threads = [threading.Thread(target=ask) for _ in range(3)]
[thread.start() for thread in threads]
"""


def _share_gpus(host: Container) -> None:
    """Let a process that is not of the service hold memory of one of its GPUs."""
    host.shell("systemd-run --quiet --unit=gpu-user sleep 1000")
    pid = host.shell("systemctl show --property=MainPID --value gpu-user").strip()
    host.shell(f"echo 0 5000 >/run/fake-gpu/{pid}")


def _log_to_file(host: Container) -> None:
    host.put(
        f"{UNIT_PATH}.d/50-log.conf", "[Service]\nStandardOutput=append:/var/log/server.log\nStandardError=inherit\n"
    )
    host.shell(f"systemctl daemon-reload; systemctl restart {UNIT}")


def _turn_off(host: Container) -> None:
    host.shell(f"systemctl stop {UNIT}")


def _prepare_start_of_systemd(host: Container) -> None:
    """Start it anew once before: its command line says afterwards that it was."""
    host.shell("systemctl daemon-reexec")


def _start_systemd_anew(scene: Scene) -> None:
    """Do what an upgrade of systemd does, again and again."""
    for _ in range(6):
        if scene.tuner.has_ended:
            return
        scene.host.shell("systemctl daemon-reexec", check=False)
        time.sleep(2.5)


def _disable(host: Container) -> None:
    host.shell(f"systemctl disable --quiet {UNIT}")


def _take_port_before(host: Container) -> None:
    host.shell(f"systemctl stop {UNIT}; systemd-run --quiet --unit=squatter {_SQUATTER}")


def _restart_often(host: Container) -> None:
    """Use up the starts that systemd allows, but for one."""
    for _ in range(3):
        host.shell(f"systemctl restart {UNIT}")
        time.sleep(0.3)


def _reboot(scene: Scene) -> None:
    before = scene.host.boot_id
    scene.host.run(["systemctl", "reboot"], check=False)
    deadline = time.monotonic() + 60
    while scene.host.boot_id in (before, None):
        if time.monotonic() > deadline:
            raise TimeoutError("the host does not begin to boot again within 60 s")
        time.sleep(0.05)
    scene.host.wait_for_port(22)


def _lose_power(scene: Scene) -> None:
    scene.host.crash()
    scene.host.boot()


def _take_port(scene: Scene) -> None:
    scene.start_on_host("/usr/bin/python3", "-c", _WAITING_SQUATTER)


def _kill_escaped(scene: Scene) -> None:
    scene.host.shell(
        "cd /sys/fs/cgroup && echo 1 >escaped/cgroup.kill && "
        "timeout 30 sh -c 'until grep -qx \"populated 0\" escaped/cgroup.events; do sleep 0.05; done' && rmdir escaped"
    )


def _add_drop_in(host: Container, path: str) -> None:
    host.put(path, "[Service]\nEnvironment=SGLANG_DDTREE_MAX_TOPK=4\n")
    host.shell(f"systemctl daemon-reload; systemctl restart {UNIT}")


def _add_later_drop_in(host: Container, *, is_restarted: bool = True) -> None:
    host.put(f"{UNIT_PATH}.d/zzzz-site.conf", "[Service]\nEnvironment=SGLANG_DDTREE_MAX_TOPK=2\n")
    host.shell("systemctl daemon-reload" + (f"; systemctl restart {UNIT}" if is_restarted else ""))


def _remove_later_drop_in(scene: Scene) -> None:
    """The administrator takes the drop-in back, and restarts the service since it may run with it."""
    scene.host.shell(f"rm {UNIT_PATH}.d/zzzz-site.conf; systemctl daemon-reload; systemctl restart {UNIT}")


def _forbid(host: Container, name: str) -> None:
    host.allow("ubuntu", [path for other, path in ROOT_COMMANDS.items() if other != name])


def _send_traffic(scene: Scene, seconds: float, *, running: int = 0) -> None:
    """Send requests for so long, as soon as so many of the tuner run: however long it prepares, they meet its cell."""
    scene.start_on_host("/usr/bin/python3", "-c", _TRAFFIC, str(seconds), str(running))


def _pull(scene: Scene, seconds: float) -> None:
    scene.host.link(is_up=False)
    time.sleep(seconds)
    scene.host.link(is_up=True)


def _send_to_sleep(scene: Scene) -> None:
    scene.tuner.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 40
    while exists(LEASE)(scene) and time.monotonic() < deadline:
        time.sleep(0.1)
    scene.tuner.process.send_signal(signal.SIGCONT)


def _send_signal(scene: Scene, number: int) -> None:
    scene.tuner.process.send_signal(number)


def _send_second_tuner(scene: Scene) -> None:
    """Another study for the same service: it must be told whose turn it is."""
    study = (scene.folder / "night.toml").read_text().replace('name = "night"', 'name = "rival"')
    (scene.folder / "rival.toml").write_text(study)
    rival = Tuner(
        scene.lab, scene.host, scene.folder, scene.place, ["optimize", "rival.toml", "--plain", "--trials", "2"]
    )
    try:
        code = rival.wait(60)
    finally:
        rival.close()
    if code != 3 or "another tuner works on" not in rival.text:
        scene.notes.append(f"the second tuner ended with {code}: {rival.text[-500:]}")
