"""What a test host wrote onto its disk since a moment, and how to undo it: all of it, wherever a test put it."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.host.root_disk import RootDisk, find_private_folders

WATCHED: Final = ("etc", "home", "opt", "root", "srv", "usr")
"""Folders below ``/`` where only a test writes; ``/var`` is written by the system itself."""


@dataclass(frozen=True)
class Entry:
    """How a file, folder or link in the writable layer looks: two that are equal need not be copied."""

    mode: int
    owner: tuple[int, int]
    content: tuple[int, int, int]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_deletion(self) -> bool:
        """Whether it stands for a file of the layer below that is hidden (a character device 0/0, as overlayfs has it)."""
        return stat.S_ISCHR(self.mode) and self.content[2] == 0


class WrittenFiles:
    """The writable layer of a host's disk as it was when this was made."""

    def __init__(self, disk: RootDisk) -> None:
        self._root, self._upper = disk.root, disk.folder / "upper"
        self._copy = disk.folder / "pristine"
        self._private = [Path(name) for name in find_private_folders()]
        self._before = self._list()
        for top in WATCHED:
            (self._copy / top).mkdir(parents=True)
        for path, entry in sorted(self._before.items()):
            if not entry.is_deletion:
                _copy(self._root / path, self._copy / path, entry.is_folder)

    def put_back(self) -> None:
        """Make the disk look again as it did."""
        now = self._list()
        for path in sorted(now.keys() - self._before.keys(), reverse=True):
            lower = Path("/") / path
            if not self._is_private(path) and os.path.lexists(lower):
                _copy(lower, self._root / path, lower.is_dir() and not lower.is_symlink())
            elif not now[path].is_deletion:
                _remove(self._root / path, now[path].is_folder)
        for path, entry in sorted(self._before.items()):
            if now.get(path) == entry:
                continue
            if entry.is_deletion:
                _remove(self._root / path, now[path].is_folder)
            else:
                _copy(self._copy / path, self._root / path, entry.is_folder)

    def _list(self) -> dict[Path, Entry]:
        """Return what is in the writable layer, by its path below ``/``."""
        found = {}
        for top in WATCHED:
            for folder, folders, files in os.walk(self._upper / top):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    found[path.relative_to(self._upper)] = _look(path)
        return found

    def _is_private(self, path: Path) -> bool:
        """Whether this machine's own file of that path is hidden from the host."""
        return any(path.is_relative_to(private) for private in self._private)


def _look(path: Path) -> Entry:
    status = path.lstat()
    content = (0, 0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns, status.st_rdev)
    return Entry(status.st_mode, (status.st_uid, status.st_gid), content)


def _copy(source: Path, target: Path, is_folder: bool) -> None:
    """Copy one file, folder or link with its owner, mode and times; what is in a folder is left out."""
    if is_folder:
        if target.is_symlink() or target.is_file():
            target.unlink()
        target.mkdir(parents=True, exist_ok=True)
    else:
        _remove(target, target.is_dir() and not target.is_symlink())
        shutil.copy2(source, target, follow_symlinks=False)
    status = source.lstat()
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not target.is_symlink():
        target.chmod(stat.S_IMODE(status.st_mode))


def _remove(path: Path, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
