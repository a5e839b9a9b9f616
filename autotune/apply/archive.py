"""Where the host keeps what was there before each apply: ``/var/lib/autotune/UNIT``, which survives a reboot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autotune.apply.export_file import place
from autotune.apply.history import FileState, History, Step, parse_history, render_history
from autotune.deployment.host import Host
from autotune.deployment.host_files import Runner, make_folder, read_file
from autotune.errors import HostError

FOLDER: Final = "/var/lib/autotune"
_PRIVATE: Final = 0o600
"""Mode of everything in it: a unit's command may hold secrets."""


@dataclass(frozen=True, slots=True)
class Archive:
    """History and saved files of one unit.

    Attributes:
        host: where it is.
        run_as_root: who runs the commands that change something.
        unit: name of the unit.
    """

    host: Host
    run_as_root: Runner
    unit: str

    @property
    def folder(self) -> str:
        """Its folder."""
        return f"{FOLDER}/{self.unit}"

    @property
    def path(self) -> str:
        """The file with the history."""
        return f"{self.folder}/history.json"

    def read(self) -> History:
        """Return the history.

        Raises:
            HostError: it is damaged.
        """
        return parse_history(read_file(self.host, self.path), f"{self.host.name}:{self.path}")

    def write(self, history: History) -> None:
        """Replace the history in one step; an empty one leaves nothing behind, not even a folder."""
        if history == History():
            self._run(("rm", "-f", "--", self.path, f"{self.path}.new"))
            for folder in (self.folder, FOLDER):
                if self.run_as_root(("rmdir", "--", folder)).exit_code != 0:
                    return  # something of another unit, or a file that somebody wanted to keep
            return
        make_folder(self.run_as_root, self.folder)
        place(self.run_as_root, self.path, FileState(render_history(history), _PRIVATE))

    def save(self, name: str, content: bytes) -> None:
        """Keep the bytes of a file, readable by root only."""
        make_folder(self.run_as_root, self.folder)
        place(self.run_as_root, f"{self.folder}/{name}", FileState(content, _PRIVATE))

    def read_saved(self, name: str) -> bytes | None:
        """Return bytes that were kept; ``None`` when there are none of this name."""
        return read_file(self.host, f"{self.folder}/{name}")

    def read_before(self, step: Step) -> FileState:
        """Return what was there before a step.

        Raises:
            HostError: the bytes that were kept are gone or are other ones.
        """
        if step.before_digest is None:
            return FileState(None)
        content = self.read_saved(step.before_name)
        state = FileState(content, step.before_mode, step.before_user_id, step.before_group_id)
        if state.digest != step.before_digest:
            raise HostError(
                "the saved drop-in is gone or was changed, so the state before cannot be put back",
                where=f"{self.host.name}:{self.folder}/{step.before_name}",
                hint="put the drop-in back by hand from a copy, then remove that folder",
            )
        return state

    def forget(self, *steps: Step) -> None:
        """Remove the saved files of steps that cannot be taken back any more."""
        for step in steps:
            names = (step.before_name, step.written_name)
            self._run(("rm", "-f", "--", *(f"{self.folder}/{name}" for name in names)))

    def _run(self, command: tuple[str, ...]) -> None:
        self.host.expect(command, self.run_as_root(command, is_idempotent=True))
