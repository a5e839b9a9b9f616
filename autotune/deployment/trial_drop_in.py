"""The one file on the host that makes a trial of a service: written and taken away so that any later hand can finish.

A copy of what is about to be written lies beside the lease before the file itself is touched. So whoever restores can
tell our file from one that somebody else has changed, whatever the moment at which the tuner died.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from autotune.deployment.host import Host
from autotune.deployment.host_files import make_folder, read_file, remove_file, write_file
from autotune.deployment.lease import Lease
from autotune.deployment.systemd_unit import trial_drop_in_path
from autotune.errors import HostError, UnitStateError


class Removal(Enum):
    """What became of the file."""

    ABSENT = "absent"
    """It was not there."""
    REMOVED = "removed"
    """It was ours and is gone."""
    LEFT = "left"
    """Somebody else has changed it, so it stays."""


class TrialDropIn:
    """The drop-in of a unit.

    Args:
        host: connected.
        lease: every change goes through it.
        unit: name of the service.
    """

    def __init__(self, host: Host, lease: Lease, unit: str) -> None:
        self.path = trial_drop_in_path(unit)
        self._host = host
        self._lease = lease
        self._folder = self.path.rpartition("/")[0]
        self._copy = f"{lease.folder}/drop-in"

    def has_folder(self) -> bool:
        """Whether the unit has a drop-in folder in ``/run`` already.

        Raises:
            UnitStateError: a link is in its place, through which our file would get to where a reboot leaves it.
        """
        if self._host.run(("test", "-L", self._folder), is_idempotent=True).exit_code == 0:
            raise UnitStateError(
                f"{self._folder} is a link, so a drop-in of a trial would lie where it leads and outlive a reboot",
                where=self._host.name,
                hint="put a folder in its place, or move the link to /etc/systemd/system; then systemctl daemon-reload",
            )
        return self._host.run(("test", "-d", self._folder), is_idempotent=True).exit_code == 0

    def write(self, text: str) -> None:
        """Replace the file and have systemd read it.

        Raises:
            LeaseLostError: nothing was written.
            HostError: systemd does not read it.
        """
        data = text.encode()
        run_as_root = self._lease.run_as_root
        write_file(run_as_root, f"{self._copy}.next", data, 0o600)
        make_folder(run_as_root, self._folder)
        write_file(run_as_root, self.path, data)
        self._expect(("mv", "-f", "-T", "--", f"{self._copy}.next", self._copy))
        self.reload()

    def remove(self, known: Collection[str], *, made_folder: bool) -> Removal:
        """Take the file away if it is one that we wrote, and its folder if that is ours and empty; then reload.

        Args:
            known: texts that are ours beside the copies on the host.
            made_folder: whether the folder was not there before us.
        """
        run_as_root = self._lease.run_as_root
        copies = (read_file(self._host, path) for path in (self._copy, f"{self._copy}.next"))
        ours = {copy for copy in copies if copy is not None} | {text.encode() for text in known if text}
        found = read_file(self._host, self.path)
        if found is not None and found not in ours:
            return Removal.LEFT
        remove_file(run_as_root, f"{self.path}.new")
        if found is not None:
            remove_file(run_as_root, self.path)
        if made_folder:
            run_as_root(("rmdir", "--", self._folder), is_idempotent=True)  # stays when others put something into it
        self.reload()
        return Removal.ABSENT if found is None else Removal.REMOVED

    def forget(self) -> None:
        """Remove the copies: from now on nothing is changed that the host would have to put back."""
        for path in (self._copy, f"{self._copy}.next"):
            remove_file(self._lease.run_as_root, path)

    def reload(self) -> None:
        """Have systemd read all unit files."""
        self._expect(("systemctl", "daemon-reload"))

    def _expect(self, command: tuple[str, ...]) -> None:
        output = self._lease.run_as_root(command, is_idempotent=True)
        if output.exit_code != 0:
            raise HostError(f"{' '.join(command)} failed: {output.complaint}", where=self._host.name)
