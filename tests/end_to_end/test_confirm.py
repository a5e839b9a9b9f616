"""The real thing: leader and baseline are really booted again in turns, and what was found is said whatever it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from autotune.study import load_study
from autotune.trial import TrialKind, TrialState
from tests.deployment.processes import free_port

STUDY = """
name = "short"
[server]
port = {port}
proofs = ["best-first-tree"]
[baseline]
budget = 0
[[try]]
budget = 7
topk = 1
window = "none"
[benchmark]
output_tokens = 32
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
enabled = false
[confirmation]
soak_s = 1.0
"""


def autotune(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_trial_is_confirmed_or_not_in_fresh_boots_of_the_embedded_server(tmp_path: Path):
    (tmp_path / "study.toml").write_text(STUDY.format(port=free_port()))
    searched = autotune(tmp_path, "optimize", "study.toml", "--trials", "1", "--plain")
    assert searched.returncode == 0, searched.stderr
    confirmed = autotune(tmp_path, "confirm", "study.toml", "--trial", "1", "--boots", "4", "--json", "--plain")
    assert confirmed.returncode == 0, confirmed.stderr

    document = json.loads(confirmed.stdout)
    trials = load_study(tmp_path / "studies" / "short").trials
    again = [trial for trial in trials if trial.kind is TrialKind.CONFIRMATION and not trial.is_soak]
    assert document["is_decided"]
    assert document["leaders"][0]["outcome"] in {"confirmed", "no significant gain", "refuted"}
    assert [trial.confirmation.leader for trial in again if trial.confirmation] == [1, None, None, 1]
    assert all(trial.state is TrialState.COMPLETE and trial.evaluation is None for trial in again)
    assert len({trial.boot.pid for trial in again if trial.boot}) == 4
    assert (document["soak"] is not None) == (document["leaders"][0]["outcome"] == "confirmed")
    assert document["sentence"] in confirmed.stderr
