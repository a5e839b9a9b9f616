"""Hostile programs, run as whoever runs the tests, and as an ordinary user too where that is root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.evaluation.sandbox import DEMANDED
from autotune.trial import Verdict
from tests.evaluation.attacks import ATTACKS

ROOT = Path(__file__).parents[2]
ORDINARY = 61234
"""A user id that nobody has."""
PARTS = ("__init__.py", "errors.py", "trial.py", "evaluation")


def run_attacks(interpreter: str, folder: Path, user: int | None) -> dict[str, Any]:
    identity: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(
        [interpreter, "-B", "-m", "tests.evaluation.attack_run"],
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        **identity,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def as_ourselves() -> dict[str, Any]:
    return run_attacks(sys.executable, ROOT, None)


@pytest.fixture(scope="module")
def as_ordinary_user(as_ourselves) -> Iterator[dict[str, Any]]:
    """The same as ourselves where we are one; root becomes one, in a copy and with an interpreter that it can read."""
    if os.geteuid() != 0:
        yield as_ourselves
        return
    with tempfile.TemporaryDirectory(prefix="autotune-test-") as folder:
        copy = Path(folder)
        copy.chmod(0o755)
        for part in PARTS:
            source = ROOT / "autotune" / part
            (copy / "autotune").mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy / "autotune" / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / "autotune" / part)
        (copy / "tests/evaluation").mkdir(parents=True)
        for name in ("attacks.py", "attack_run.py"):
            shutil.copy(ROOT / "tests/evaluation" / name, copy / "tests/evaluation" / name)
        yield run_attacks(find_interpreter(), copy, ORDINARY)


def find_interpreter() -> str:
    """An interpreter that an ordinary user may run: ours may lie in root's own folder."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3", "/usr/bin/python3.12"):
        try:
            done = subprocess.run(
                [path, "-c", "import sys, tomllib; print(sys.version_info >= (3, 11))"],
                user=ORDINARY,
                group=ORDINARY,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if done.stdout.strip() == "True":
            return path
    pytest.skip("no Python from 3.11 on this machine can be run by another user than root")


def test_there_are_many_and_each_has_a_name_of_its_own():
    assert len(ATTACKS) >= 25
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def check(outcome: dict[str, Any]) -> None:
    names = [attack.name for attack in ATTACKS]
    passed = [(name, reason) for name, verdict, reason in outcome["attacks"] if verdict == Verdict.PASSED.value]

    assert [name for name, _, _ in outcome["attacks"]] == names
    assert passed == []
    assert outcome["traces"] == []
    assert all(reason for _, _, reason in outcome["attacks"])
    assert set(DEMANDED) <= set(outcome["layers"])


def test_none_passes_none_escapes_and_the_judge_survives(as_ourselves):
    assert as_ourselves["uid"] == os.getuid()
    check(as_ourselves)


def test_the_same_holds_for_an_ordinary_user(as_ordinary_user):
    assert as_ordinary_user["uid"] != 0
    check(as_ordinary_user)


def test_a_program_that_needs_nothing_forbidden_would_have_passed():
    """The attacks fail because they are refused, not because of how they are written."""
    harmless = next(attack for attack in ATTACKS if attack.name == "memory files")
    scope: dict[str, Any] = {}

    exec(harmless.program, scope)  # noqa: S102 - it makes a file in memory, which ends with this process' descriptor

    assert scope["escaped"] is True
    assert scope["f"](1) == 2
