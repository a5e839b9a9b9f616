"""Our drop-in below ``/etc`` on a host: what is there, byte for byte with mode and owner, and how is it replaced?"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Final

from autotune.apply.history import FileState
from autotune.deployment.host import Host
from autotune.deployment.host_files import Runner, make_folder, read_file
from autotune.errors import HostError, PermissionDenied, UnitStateError

UNIT_FOLDER: Final = "/etc/systemd/system"
DROP_IN_NAME: Final = "50-autotune.conf"


@dataclass(frozen=True, slots=True)
class ExportFile:
    """The file that ``autotune export --apply`` writes for one unit.

    Attributes:
        host: where it is.
        run_as_root: who runs the commands that change something.
        unit: name of the unit.
        name: of the file.
    """

    host: Host
    run_as_root: Runner
    unit: str
    name: str = DROP_IN_NAME

    @property
    def folder(self) -> str:
        """Folder of the drop-ins of the unit."""
        return f"{UNIT_FOLDER}/{self.unit}.d"

    @property
    def path(self) -> str:
        """Absolute path."""
        return f"{self.folder}/{self.name}"

    def has_folder(self) -> bool:
        """Whether the folder exists.

        Raises:
            UnitStateError: something else is in its place.
        """
        facts = self._look(self.folder)
        if facts is not None and stat.S_ISLNK(facts.mode):
            raise UnitStateError(
                f"{self.folder} is a link, so systemd knows its files under other names than they are written by",
                where=self.host.name,
                hint="put the folder that it leads to in its place; then systemctl daemon-reload",
            )
        if facts is not None and not stat.S_ISDIR(facts.mode):
            raise UnitStateError(
                f"{self.folder} is no folder", where=self.host.name, hint="move it away; drop-ins go into a folder"
            )
        return facts is not None

    def read(self) -> FileState:
        """Return what is there now.

        Raises:
            UnitStateError: a link or something else that is no plain file is in its place.
            PermissionDenied: its folder is closed to this user, so mode and owner cannot be saved.
        """
        facts = self._look(self.path)
        if facts is None:
            return FileState(None)
        if not stat.S_ISREG(facts.mode):
            raise UnitStateError(
                f"{self.path} is no plain file",
                where=self.host.name,
                hint="see what it is with `ls -l` and move it away, or choose another name with --name",
            )
        content = read_file(self.host, self.path)
        return FileState(content, stat.S_IMODE(facts.mode), facts.user_id, facts.group_id)

    def put(self, state: FileState) -> None:
        """Replace the file in one step by another state of it, or remove it; running it twice does no harm.

        Raises:
            HostError: a command failed; what was there is still there.
        """
        if state.content is None:
            self._expect(("rm", "-f", "--", self.path, f"{self.path}.new"))
            return
        make_folder(self.run_as_root, self.folder)
        place(self.run_as_root, self.path, state)

    def remove_folder_if_empty(self) -> bool:
        """Remove the folder unless somebody else has put something into it; return whether it is gone."""
        output = self.run_as_root(("rmdir", "--", self.folder))
        return output.exit_code == 0 or not self.has_folder()

    def _look(self, path: str) -> _Facts | None:
        """Ask for type, mode and owner; ``None`` when there is nothing."""
        command = ("stat", "--printf=%f %u %g", "--", path)
        output = self.host.run(command, is_idempotent=True)
        if output.exit_code == 0:
            mode, user_id, group_id = output.text.split()
            return _Facts(int(mode, 16), int(user_id), int(group_id))
        if output.stderr.rstrip().endswith(b"No such file or directory"):
            return None
        if output.stderr.rstrip().endswith(b"Permission denied"):
            raise PermissionDenied(
                f"{path} is closed to this user, so its mode and owner cannot be saved",
                where=self.host.name,
                hint=f"connect as root, or open the folder: chmod a+rx {self.folder}",
            )
        raise HostError(f"cannot look at {path}: {output.complaint}", where=self.host.name)

    def _expect(self, command: tuple[str, ...]) -> None:
        self.host.expect(command, self.run_as_root(command, is_idempotent=True))


@dataclass(frozen=True, slots=True)
class _Facts:
    """Type and permission bits as ``st_mode`` has them, and the owner."""

    mode: int
    user_id: int
    group_id: int


def place(run_as_root: Runner, path: str, state: FileState) -> None:
    """Write a file with mode and owner in one step: a reader sees the old one or the new one, nothing between.

    The bytes travel over standard input, so no command line holds them.

    Raises:
        HostError: a command failed; the old file is still there.
    """
    new = f"{path}.new"
    owner = ("-o", str(state.user_id), "-g", str(state.group_id))
    for command, stdin in (
        (("install", "-m", f"{state.mode:04o}", *owner, "--", "/dev/stdin", new), state.content or b""),
        (("mv", "-f", "-T", "--", new, path), b""),
    ):
        output = run_as_root(command, stdin=stdin)
        if output.exit_code != 0:
            raise HostError(
                f"cannot write {path}: {output.complaint}", hint="see whether the disk is full or read-only"
            )
