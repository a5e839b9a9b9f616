"""Who may change a service on its host, until when, and what the host does when that tuner is not heard of any more.

A lease is three things on the host: a file with a token, a transient timer that puts the baseline back when it is not
renewed in time, and a fence: each changing command runs under a lock and only while the file holds our token. So a
tuner that wakes up after its lease was over changes nothing, whatever it believes.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from autotune.deployment.host import CommandOutput, Host
from autotune.deployment.host_files import make_folder, write_file
from autotune.deployment.lease_holder import LeaseHolder, find_timer, read_holder, read_remaining_s, render_holder
from autotune.deployment.systemd_away import insist
from autotune.errors import HostBusyError, HostError, LeaseLostError, SshError

RUN_FOLDER: Final = "/run/autotune"
"""On the host; its lock orders all changing commands of all tuners."""

RESTORE_SCRIPT: Final = Path(__file__).with_name("restore.sh")
_RENEWALS = 4
_ATTEMPTS = 3
_LOCK_HELD, _LEASE_LOST = 74, 75
_FENCE = r"""
[ -d "$1" ] || exit 75
exec 9<"$1" || exit 74
flock -w 60 9 || exit 74
if [ -n "$3" ]; then
    held=
    [ ! -e "$2/lease" ] || read -r held <"$2/lease"
    [ "$held" = "token=$3" ] || exit 75
else
    for other in "$1"/*/lease; do [ ! -e "$other" ] || exit 75; done
fi
shift 3
"$@" 9<&-
"""


def find_folder(unit: str) -> str:
    """Return the folder that belongs to a unit on its host while a tuner works on it.

    Without backslashes, which do not survive in a transient unit when systemd reads its files again.
    """
    name = unit.replace("\\", "_")
    return f"{RUN_FOLDER}/{name}"


def fence(folder: str, token: str, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that runs another one under the lock, if the lease holds a token.

    Args:
        folder: of the unit.
        token: what the lease must hold; empty: no lease of any unit may exist on the host.
        command: what to run then.
    """
    return ("sh", "-c", _FENCE, "fence", RUN_FOLDER, folder, token, *command)


def unfence(command: Sequence[str]) -> tuple[str, ...]:
    """Return what :func:`fence` was given; another command as it is.

    >>> unfence(fence("/run/autotune/x.service", "token", ["rm", "-f", "y"]))
    ('rm', '-f', 'y')
    """
    words = tuple(command)
    return words[7:] if words[:4] == ("sh", "-c", _FENCE, "fence") else words


class Lease:
    """The right to change one service, renewed in the background until it is released.

    Args:
        host: connected.
        unit: name of the service.
        lease_s: after so many seconds without renewal the host puts the baseline back.
        study: folder of the study, to say who holds the lease.
        uptime: seconds that go on while the machine sleeps.
    """

    def __init__(
        self,
        host: Host,
        unit: str,
        *,
        lease_s: float,
        study: str,
        uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._host = host
        self._unit = unit
        self._lease_s = lease_s
        self._study = study
        self._uptime = uptime
        self._lost: str | None = None
        self._renewed_at: float | None = None
        self._ended = threading.Event()
        self.folder = find_folder(unit)
        self.token = uuid.uuid4().hex
        self.timer = find_timer(unit, self.token)

    @property
    def facts_path(self) -> str:
        """File that tells the host's own restore what to put back."""
        return f"{self.folder}/baseline-{self.token}"

    @property
    def _script(self) -> str:
        """The host's own restore, one for each token: tuners that come at the same time share no file."""
        return f"{self.folder}/restore-{self.token}.sh"

    @property
    def left_s(self) -> float:
        """Seconds until the host puts the baseline back unless the lease is renewed; 0 when it is over or not taken."""
        if self._renewed_at is None or self._lost is not None:
            return 0.0
        return max(self._renewed_at + self._lease_s - self._uptime(), 0.0)

    def acquire(self, facts: bytes, *, instead_of: LeaseHolder | None = None) -> None:
        """Take the lease: the timer first, so that at no moment a lease exists that nobody would end.

        Args:
            facts: content for :attr:`facts_path`.
            instead_of: a holder known to be gone; without it there must be no lease on the host.

        Raises:
            HostBusyError: another tuner has it.
            HostError: the host cannot hold a lease.
        """
        mine = f"{self.folder}/lease-{self.token}"
        self._prepare(mine, facts)
        self._renewed_at = self._uptime()
        armed = self._host.run_as_root(self._arming())
        if armed.exit_code != 0:
            self._give_up(mine)
            self._expect(armed)
        expected = "" if instead_of is None else instead_of.token
        move = ("mv", "-f", "-T", "--", mine, f"{self.folder}/lease")
        try:
            self._run(expected, move)
        except LeaseLostError:
            self._give_up(mine)
            raise explain_busy(self._host, self._unit) from None
        self._stop_orphans()
        if instead_of is not None:
            old = instead_of.plain_token
            self.run_as_root(("rm", "-f", "--", f"{self.folder}/baseline-{old}", f"{self.folder}/restore-{old}.sh"))
        self._expect(self.run_as_root(("install", "-m", "0755", "--", self._script, f"{self.folder}/restore.sh")))
        thread = threading.Thread(
            target=_renew_for_ever,
            args=(weakref.ref(self), self._ended, self._lease_s / _RENEWALS),
            name=f"lease {self._unit}",
            daemon=True,
        )
        thread.start()

    def run_as_root(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 90.0, is_idempotent: bool = False
    ) -> CommandOutput:
        """Run a changing command as root, if the lease is still ours.

        Raises:
            LeaseLostError: it is not; the command did not run.
            PermissionDenied: sudo refuses it.
            SshError: as :meth:`Host.run`.
        """
        self._refuse_lost()

        def run() -> CommandOutput:
            return self._run(self.token, command, stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)

        try:
            return insist(run) if is_idempotent else run()
        except LeaseLostError as error:
            self._lost = error.message
            raise

    def check(self) -> None:
        """Make sure that the lease is ours, before a change or a measurement.

        Asks the host only when the last renewal is so long ago that it may have ended: after a sleep, say. A lease that
        was never taken or was given back is none that could be lost; the fence refuses changes without it.

        Raises:
            LeaseLostError: it is not ours any more.
            SshError: the host cannot be asked.
        """
        self._refuse_lost()
        if self._renewed_at is not None and self.left_s <= 0:
            self.renew()

    def renew(self) -> None:
        """Start the host's countdown anew.

        Raises:
            LeaseLostError: the lease is over.
            SshError: the host cannot be asked.
        """
        now = self._uptime()
        output = self.run_as_root(("systemctl", "restart", "--", self.timer), is_idempotent=True)
        if output.exit_code != 0:  # somebody has stopped the timer, or it has fired and the script will fence us off
            armed = self.run_as_root(self._arming())
            if armed.exit_code != 0:
                self._lost = f"the host's timer {self.timer} is gone: {output.complaint}"
                self._refuse_lost()
        self._renewed_at = now

    def release(self) -> None:
        """Give the lease back and remove what it needed on the host; does nothing when it is lost or not taken.

        Raises:
            SshError: the host cannot be asked; its timer then finds nothing to put back.
        """
        self.stop_renewing()
        if self._renewed_at is None or self._lost is not None:
            return
        try:
            self.run_as_root(("systemctl", "stop", "--", self.timer))
            self._expect(self.run_as_root(("rm", "-r", "-f", "--", self.folder), is_idempotent=True))
        except LeaseLostError:
            return
        self._renewed_at = None

    def stop_renewing(self) -> None:
        """End the background thread; from now on the host waits no longer than the lease says."""
        self._ended.set()

    def _refuse_lost(self) -> None:
        if self._lost is not None:
            raise LeaseLostError(
                self._lost,
                where=f"{self._unit} on {self._host.name}",
                hint="the host has put the baseline back, or another tuner works there; run the command again",
            )

    def _run(
        self,
        token: str,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 90.0,
        is_idempotent: bool = False,
    ) -> CommandOutput:
        """Run a command behind the fence."""
        fenced = fence(self.folder, token, self._host.as_root(command))
        output = self._host.run(fenced, stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)
        if output.exit_code == _LEASE_LOST:
            raise LeaseLostError("the lease is not ours any more", where=f"{self._unit} on {self._host.name}")
        if output.exit_code == _LOCK_HELD:
            raise HostError(
                f"the lock on {RUN_FOLDER} cannot be had: {output.complaint}",
                where=self._host.name,
                hint=f"see who holds it: fuser {RUN_FOLDER}",
            )
        self._host.check_sudo(command, output)
        return output

    def _prepare(self, mine: str, facts: bytes) -> None:
        """Write what the lease consists of, under names of our own."""
        run_as_root = self._host.run_as_root
        holder = render_holder(self.token, self._unit, self._study, self._lease_s, self.timer)
        for attempt in range(_ATTEMPTS):
            try:
                for folder in (RUN_FOLDER, self.folder):
                    make_folder(run_as_root, folder)
                write_file(run_as_root, self._script, RESTORE_SCRIPT.read_bytes(), 0o755)
                write_file(run_as_root, self.facts_path, facts, 0o600)
                write_file(run_as_root, mine, holder, 0o644)
            except SshError:
                raise
            except HostError:  # another tuner may just have given back its lease and removed the folder
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _arming(self) -> tuple[str, ...]:
        """Return the command that starts the timer that puts the baseline back."""
        return (
            "systemd-run",
            "--quiet",
            "--collect",
            "--no-ask-password",
            f"--unit={self.timer.removesuffix('.timer')}",
            f"--description=Puts {self._unit} back when its tuner is gone",
            f"--on-active={self._lease_s:g}s",
            "--timer-property=AccuracySec=1s",
            "--timer-property=StartLimitIntervalSec=0",  # each renewal is a start
            "--service-type=oneshot",
            "--property=TimeoutStartSec=infinity",
            f"--property=ConditionPathExists={self._script}",
            "/bin/sh",
            self._script,
            self.folder,
            self.token,
        )

    def _stop_orphans(self) -> None:
        """Stop the timers of tuners that are gone: of the holder before, and of any that died while they tried."""
        command = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "autotune-*.timer")
        names = {line.split()[0] for line in self._host.run(command, is_idempotent=True).text.splitlines() if line}
        pattern = re.escape(find_timer(self._unit, "\0")).replace(re.escape("\0"), "[0-9a-f]{8}")
        for name in sorted(names - {self.timer}):
            if re.fullmatch(pattern, name):
                self.run_as_root(("systemctl", "stop", "--", name), is_idempotent=True)

    def _give_up(self, mine: str) -> None:
        """Take back what a lost race, or a host that holds no lease, has left."""
        self._host.run_as_root(("systemctl", "stop", "--", self.timer))
        self._host.run_as_root(("rm", "-f", "--", mine, self.facts_path, self._script))
        self._host.run_as_root(("rmdir", "--", self.folder))  # stays where another tuner has put something into it
        self._renewed_at = None

    def _expect(self, output: CommandOutput) -> None:
        if output.exit_code != 0:
            raise HostError(f"the lease cannot be kept there: {output.complaint}", where=self._host.name)


def explain_busy(host: Host, unit: str) -> HostBusyError:
    """Say who holds the lease of a unit and when it ends."""
    holder = read_holder(host, find_folder(unit))
    if holder is None:
        return HostBusyError("another tuner works on this host", where=host.name, hint="wait for it, or stop it")
    left_s = read_remaining_s(host, holder.timer)
    until = "" if left_s is None else f"; if it is gone, the host puts the baseline back in {left_s:.0f} s"
    return HostBusyError(
        f"another tuner works on {holder.unit}: {holder.holder}, study {holder.study}, since {holder.taken_at}{until}",
        where=host.name,
        hint="wait for it, or stop it with Ctrl-C or SIGTERM: it restores the server first",
    )


def _renew_for_ever(lease: weakref.ref[Lease], ended: threading.Event, pause_s: float) -> None:
    """Renew a lease until it is released, lost, or nobody has it any more."""
    wait_s = pause_s
    while not ended.wait(wait_s):
        held = lease()
        if held is None:
            return
        try:
            held.renew()
        except LeaseLostError:
            return
        except (SshError, HostError):
            wait_s = max(pause_s / 4, 0.5)  # the next step that needs the host says what is wrong with it
        else:
            wait_s = pause_s
        del held
