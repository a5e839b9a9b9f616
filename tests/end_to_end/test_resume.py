"""The real thing: a real server is restarted and measured, the tuner is killed in a trial, the same command goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.deployment.found_server import end_found
from autotune.deployment.process import Identity, find_listener, find_tree, identify, read_command, read_environment
from autotune.search_space import search_space_of
from autotune.servers.base import Phase
from autotune.settings import load_settings
from autotune.study import load_study
from autotune.trial import TrialKind, TrialState
from autotune.tuner import open_dialect
from tests.deployment.processes import free_port, running, wait_for_port, wait_until

STUDY = """
name = "short"
[server]
port = {port}
proofs = ["best-first-tree"]
[baseline]
budget = 7
topk = 1
window = "none"
[[try]]
budget = 0
[benchmark]
output_tokens = 64
repeats = 1
warmup_requests = 1
[[benchmark.stages]]
name = "busy"
cells = [{{ context = 64, concurrency = 32 }}]
[[benchmark.stages]]
name = "single"
cells = [{{ context = 64, concurrency = 1 }}]
[profile]
enabled = false

[evaluation]
problems = 2
max_tokens = 32
"""


class Optimize:
    """``autotune optimize study.toml --trials 3`` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "autotune", "optimize", "study.toml", "--trials", "3", "--plain"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "200"}
        self.output: list[str] = []
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line)
            if words in line:
                return
        self.process.wait()
        pytest.fail(f"{words!r} was never said:\n{''.join(self.output)}")

    def finish(self) -> int:
        assert self.process.stdout is not None
        self.output += self.process.stdout
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def port() -> Iterator[int]:
    port = free_port()
    yield port
    listener = find_listener("127.0.0.1", port)
    if listener is not None and listener.pid is not None:
        end_found(listener.pid, 10)


def descendants(pid: int) -> list[Identity]:
    return [identity for identity in find_tree(pid) if identity.pid != pid]


def test_a_study_killed_in_a_trial_goes_on_and_the_server_that_was_found_serves_again(tmp_path: Path, port: int):
    """Case 36, case 70 (b)."""
    (tmp_path / "study.toml").write_text(STUDY.format(port=port))
    settings = load_settings(tmp_path / "study.toml")
    space = search_space_of(settings)
    dialect = open_dialect(settings, space)
    baseline = dialect.render_launch(space.resolve(settings.baseline))
    environment = {**baseline.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
    folder = tmp_path / "studies" / "short"
    with running(type(baseline)(baseline.command, environment), tmp_path, listens=port) as found:
        before = read_environment(found.pid)
        first = Optimize(tmp_path)
        try:
            first.read_until("trial 1: stage busy")
            family = descendants(first.process.pid)
            first.process.kill()
            first.process.wait()
            wait_until(lambda: not any(item.is_alive() for item in family))
            open_trial = load_study(folder).trials[1]
            stopped = found.poll() is not None
            record_was_kept = (folder / "host.json").exists()
        finally:
            first.close()
        second = Optimize(tmp_path)
        try:
            exit_code = second.finish()
        finally:
            second.close()

        said = "".join(second.output)
        again = wait_for_port(port)
        trials = load_study(folder).trials
        assert len(family) >= 2
        assert stopped
        assert record_was_kept
        assert open_trial.state is TrialState.MEASURING
        assert exit_code == 0, said
        assert trials[1].state is TrialState.INTERRUPTED
        assert trials[2].configuration == trials[1].configuration
        assert trials[2].state.counts
        assert [cell.cell for cell in trials[2].cells][: len(trials[1].cells)] == [c.cell for c in trials[1].cells]
        assert "measured in the boot of trial 1" in trials[2].cells[0].notes
        assert sum(trial.state.counts and trial.kind is not TrialKind.BASELINE for trial in trials) == 3
        assert all(trial.boot is not None for trial in trials if trial.state is TrialState.COMPLETE)
        assert read_command(again) == baseline.command
        assert read_environment(again) == before
        assert dialect.probe(f"http://127.0.0.1:{port}").phase is Phase.READY
        assert "serves again" in said
        assert not (folder / "host.json").exists()
        assert identify(found.pid) is None
