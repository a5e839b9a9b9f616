"""The whole way of a user, on a real host with the embedded server: init, doctor, optimize, export --apply, rollback."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import UNIT, start_embedded
from tests.host.state import HostSnapshot, compare, ignore_files, snapshot, wait_until_none
from tests.host.tuner_process import Place, Tuner

KEPT = "/var/lib/autotune"
"""What was replaced by an apply stays there, for a later rollback."""


def shrink(study: str) -> str:
    """Make a study that `init` wrote short enough for a test; what it says of server and host stays."""
    study = study[: study.index('[[benchmark.stages]]\nname = "long"')] + study[study.index("[evaluation]\n") :]
    study = re.sub(r"(?m)^output_tokens = \d+", "output_tokens = 32", study)
    study = re.sub(r"(?m)^problems = \d+", "problems = 2", study)
    study = re.sub(r"(?m)^boots = \d+\nsoak_s = .+", "boots = 4\nsoak_s = 1.0", study)
    study = study.replace("[benchmark]\n", "[benchmark]\nmax_rounds = 1\n")
    return re.sub(r"(?m)^max_tokens = \d+", "max_tokens = 32", study).replace("# Long contexts last", "#")


def steady(state: HostSnapshot) -> HostSnapshot:
    """Leave out the numbers that the embedded server's processes get anew with each start."""
    named = {re.sub(r"(engine_process) \d+ \d+", r"\1", name): count for name, count in state.processes.items()}
    return replace(state, processes=named)


@pytest.mark.parametrize("place", [Place.ROOT, Place.USER, Place.ON_HOST], ids=lambda place: place.value)
def test_a_user_goes_from_a_live_unit_to_a_study_to_production_and_back(
    place: Place, lab: Lab, host: Container, tmp_path: Path
):
    start_embedded(host)
    before = snapshot(host)
    folder = Path("/root") / tmp_path.name if place is Place.ON_HOST else tmp_path
    study = folder / "mine.toml"

    def run(*arguments: str, exit_codes: tuple[int, ...] = (0,)) -> str:
        tuner = Tuner(lab, host, folder, place, arguments)
        try:
            code = tuner.wait(480.0)
        finally:
            tuner.close()
        assert code in exit_codes, f"{arguments} ended with {code}: {tuner.text}"
        return tuner.text

    reach: list[str] = []
    if place is not Place.ON_HOST:
        alias = host.alias("root" if place is Place.ROOT else "ubuntu")
        reach = ["--host", alias, "--ssh-config", str(lab.ssh_config(host))]
    printed = run("init", "--unit", UNIT, "--name", "mine", *reach)
    text = shrink(re.sub(r"(?m)^(note|warning|next): .*\n", "", printed))  # said beside the study
    if place is Place.ON_HOST:
        host.put(str(study), text)
    else:
        study.write_text(text)
    assert compare(before, snapshot(host)) == []

    # Requests of a tenth of a second on a busy machine feel the way to the server; doctor may rightly say so.
    doctor = run("doctor", str(study), "--trials", "4", exit_codes=(0,) if place is Place.ON_HOST else (0, 5))
    assert set(re.findall(r"(?m)^ +problem +(.+?)  ", doctor)) <= {"data path"}
    assert compare(before, snapshot(host)) == []
    assert snapshot(host).invocation == before.invocation

    night = run("optimize", str(study), "--plain", "--trials", "4")
    assert "the baseline serves" in night
    assert wait_until_none(lambda: compare(steady(before), steady(snapshot(host)))) == []

    status = json.loads(run("status", "mine", "--json"))
    states = [(trial["kind"], trial["state"]) for trial in status["trials"]]
    assert states[0] == ("baseline", "complete")
    assert (
        sum(kind in {"listed", "search"} and state in {"complete", "pruned", "infeasible"} for kind, state in states)
        == 4
    )

    plain = next(trial["number"] for trial in status["trials"] if trial["configuration"]["budget"] == 0)
    run("export", "mine", "--trial", str(plain), "--apply", "--yes")
    applied = snapshot(host)
    assert "--speculative-ddtree-budget" not in applied.command
    assert applied.server is not None
    assert f"/etc/systemd/system/{UNIT}.d/50-autotune.conf" in applied.files

    run("rollback", "mine")
    after = snapshot(host)
    assert compare(steady(ignore_files(before, KEPT)), steady(ignore_files(after, KEPT))) == []
    assert after.command == before.command
