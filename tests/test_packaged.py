from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import autotune
from autotune.packaged import find_packaged, list_packaged


def test_a_checkout_finds_its_files():
    path = find_packaged("search_spaces", "ddtree.toml")

    assert path is not None
    assert path.is_file()
    assert "embedded" in list_packaged("studies")
    assert "ddtree" in list_packaged("search_spaces")


def test_a_name_with_a_directory_or_an_unknown_one_is_not_found():
    assert find_packaged("studies", "../pyproject.toml") is None
    assert find_packaged("studies", "nothing.toml") is None
    assert list_packaged("nothing") == ()


def test_an_installed_package_finds_the_files_it_carries(tmp_path: Path):
    # The layout of a wheel: the data folders lie inside the package, and there is no repository around it.
    repository = Path(autotune.__file__).resolve().parent.parent
    package = tmp_path / "site" / "autotune"
    package.mkdir(parents=True)
    for name in ("__init__.py", "packaged.py"):
        shutil.copy(repository / "autotune" / name, package / name)
    for folder in ("search_spaces", "studies"):
        shutil.copytree(repository / folder, package / folder)

    code = "from autotune.packaged import find_packaged; print(find_packaged('studies', 'embedded.toml'))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=package.parent, check=True, capture_output=True, text=True
    ).stdout.strip()

    assert found == str((package / "studies" / "embedded.toml").resolve())
