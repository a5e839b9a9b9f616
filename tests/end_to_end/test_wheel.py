"""The wheel alone, in an environment of its own and an empty folder, runs a study on the embedded server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORT = Path(__file__).with_name("short.toml")


def test_an_installed_wheel_runs_a_study_from_an_empty_folder(tmp_path):
    """No checkout in sight: search spaces, studies, prompts, problems, weights and templates come from the wheel."""
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)],
        check=True,
    )
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    wheel = str(next(wheels.glob("autotune-*.whl")))
    subprocess.run([*pip, "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # The other packages are those of this environment; its own editable autotune is not found that way.
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = SHORT.read_text(encoding="utf-8").replace("port = 0 ", f"port = {port} ")
    study = tmp_path / "short.toml"
    study.write_text(text, encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def autotune(*arguments: str) -> str:
        done = subprocess.run(
            [environment / "bin" / "autotune", *arguments],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    where = subprocess.run(
        [python, "-c", "import autotune; print(autotune.__file__)"],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert where.startswith(packages)
    autotune("optimize", str(study), "--trials", "1")
    status = json.loads(autotune("status", "short", "--json"))
    assert [trial["state"] for trial in status["trials"]][:2] == ["complete", "complete"]
    assert "ExecStart=" in autotune("export", "short")
    autotune("report", "short")
    assert (folder / "studies" / "short" / "report.html").stat().st_size > 10_000
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "no server was running before, none may run now"
