"""Where do the search spaces and studies lie that come with this package, in a checkout and in an installed wheel?"""

from __future__ import annotations

from pathlib import Path


def find_packaged(folder: str, name: str) -> Path | None:
    """Return the path of a data file, or ``None`` when this package carries no such file.

    Args:
        folder: ``search_spaces`` or ``studies``. A wheel carries it inside the package, a checkout beside it.
        name: file name; anything with a directory in it is never found.
    """
    if Path(name).name != name:
        return None
    return next((path for root in _roots() if (path := root / folder / name).is_file()), None)


def list_packaged(folder: str) -> tuple[str, ...]:
    """Return the names of the TOML files of a folder without their ending, sorted."""
    return tuple(sorted({path.stem for root in _roots() for path in (root / folder).glob("*.toml")}))


def _roots() -> tuple[Path, Path]:
    package = Path(__file__).resolve().parent
    return package, package.parent
