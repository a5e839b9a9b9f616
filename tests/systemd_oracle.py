"""systemd itself as the judge of unit files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SYSTEMD = Path("/lib/systemd/systemd")
OURS = "zzz-autotune-trial.conf"
BASE_COMMAND = "/usr/bin/python3 -m sglang.launch_server --port 30000"


class Unit:
    """What systemd says that a unit with a drop-in is: an oracle that shares nothing with the writer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_loaded = "-> Unit x.service:" in text
        block = text.split("-> Unit x.service:")[1].split("-> Unit ", maxsplit=1)[0] if self.is_loaded else ""
        self.environment = re.findall(r"^\s*Environment: (.*)$", block, re.MULTILINE)
        self.unset = re.findall(r"^\s*UnsetEnvironment: (.*)$", block, re.MULTILINE)
        self.settings = dict(re.findall(r"^\s*(\w+): (.*)$", block, re.MULTILINE))
        self.loaded_commands = [
            self._split(line) for line in re.findall(r"^\s*Command Line: (.*)$", block, re.MULTILINE)
        ]

    @property
    def commands(self) -> list[list[str]]:
        """The commands as they are run: ``$$`` is a dollar sign."""
        for word in (word for command in self.loaded_commands for word in command):
            assert re.fullmatch(r"([^$]|\$\$)*", word), f"a variable would be expanded in {word!r}"
        return [[word.replace("$$", "$") for word in command] for command in self.loaded_commands]

    @staticmethod
    def _split(line: str) -> list[str]:
        """Undo the shell quoting of systemd's print."""
        words = re.findall(r'"(?:[^"\\]|\\.)*"|[^ ]+', line)
        return [
            re.sub(r"\\(.)", lambda m: {"t": "\t"}.get(m[1], m[1]), word[1:-1]) if word.startswith('"') else word
            for word in words
        ]


@pytest.fixture(scope="session")
def ask_systemd():
    if not SYSTEMD.exists():
        if os.environ.get("CI"):
            pytest.fail("systemd is not installed")
        pytest.skip("needs /lib/systemd/systemd (Debian package systemd)")
    # The manager refuses to test as root, and nobody else can walk into pytest's own folders.
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder = root / "units"
        (folder / "x.service.d").mkdir(parents=True)
        (root / "run").mkdir()
        if nobody:
            root.chmod(0o755)
            shutil.chown(root / "run", 65534, 65534)

        def ask(drop_in: str, base: str = "", unit: str | None = None, others: Mapping[str, str] | None = None) -> Unit:
            """Ask about a unit with our drop-in and, by file name, those of others."""
            for old in (folder / "x.service.d").iterdir():
                old.unlink()
            for name, text in (others or {}).items():
                (folder / "x.service.d" / name).write_text(text, encoding="utf-8")
            unit = unit or f"[Unit]\nDefaultDependencies=no\n[Service]\nExecStart={BASE_COMMAND}\n{base}"
            (folder / "x.service").write_text(unit, encoding="utf-8")
            (folder / "x.service.d" / OURS).write_text(drop_in, encoding="utf-8")
            done = subprocess.run(
                [str(SYSTEMD), "--test", "--system", "--unit=x.service"],
                env={
                    "HOME": f"{root}/run",
                    "XDG_RUNTIME_DIR": f"{root}/run",
                    "SYSTEMD_UNIT_PATH": str(folder),
                    "LC_ALL": "C.UTF-8",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=60,
                **nobody,
            )
            return Unit(done.stdout)

        yield ask
