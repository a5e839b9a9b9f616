"""`autotune export`: the drop-in and the flags of the recommended trial, byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.cli import export, service_change
from autotune.export.findings import find
from autotune.study import Study, Suggestion
from autotune.study_view import load_study
from autotune.trial import TrialKind
from tests.stored_study import SECRET, sample_settings, write_study

WHY = (
    "trial 3 is the largest geometric mean of both gains on the front while losing at most 0% at either concurrency: "
    "+8.9% at C=1 and +20.6% at C=32 against the baseline"
)

NOT_PROVEN = "not proven: the noise between boots is unknown: 2 boots of the baseline, three are needed"

DROP_IN = f"""\
# Written by autotune 0.1.0 on NOW
# from trial 3 of study "sample", measured 2026-03-01T22:00:00+00:00.
# Configuration: budget=8 topk=4 window=none
# Why this one:  {WHY}
# Gain:          {NOT_PROVEN}
# C=1:    110 (107 to 113, n=8) tokens/s, +8.9% (-12.4 to +35.4, n=8) against the baseline
# C=32:   960 (932 to 989, n=32) tokens/s, +20.6% (+8.0 to +34.6, n=32) against the baseline
# pass@1: 80% (55 to 100, n=10)
# Intervals are 95%: of speeds within one boot, of gains between boots too.
# Baseline: budget=16 topk=4 window=none
# Server version: ddtree 0.1.0
[Service]
Environment="HF_TOKEN={SECRET}"
Environment="SGLANG_DDTREE_MAX_TOPK=4"
ExecStart=
ExecStart="/opt/serve me/bin" --api-key {SECRET} --speculative-algorithm DDTREE --speculative-ddtree-budget 8 \
--speculative-num-draft-tokens 16
"""


def without_time(text: str) -> str:
    return re.sub(r"(?<= on )\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "NOW", text)


def test_the_drop_in_of_the_recommended_trial(run):
    """Case 63: the command is emptied, then set once, in full."""
    result = run("export")

    assert without_time(result.stdout) == DROP_IN
    assert result.stderr == f"budget=8 topk=4 window=none: {WHY}; {NOT_PROVEN}\n"
    assert result.exit_code == 0


def test_a_variable_that_a_configuration_does_not_set_is_removed(run):
    """The base unit may set it for another configuration."""
    lines = run("export", "--trial", "1").stdout.splitlines()

    assert "UnsetEnvironment=SGLANG_DDTREE_MAX_TOPK" in lines
    assert lines[-1] == f'ExecStart="/opt/serve me/bin" --api-key {SECRET}'


def test_the_flags_of_the_recommended_trial(run):
    assert run("export", "--format", "flags").stdout == (
        "export SGLANG_DDTREE_MAX_TOPK=4\n"
        "--speculative-algorithm DDTREE --speculative-ddtree-budget 8 --speculative-num-draft-tokens 16\n"
    )


def test_the_flags_of_plain_decoding_are_no_flags(run):
    assert run("export", "--format", "flags", "--trial", "1").stdout == "unset SGLANG_DDTREE_MAX_TOPK\n"


def test_the_export_as_data_is_json_and_nothing_else(run):
    result = run("export", "--trial", "1", "--json")

    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "study": "sample",
        "trial": 1,
        "configuration": {"budget": 0, "topk": 4, "window": None},
        "arguments": [],
        "environment": {"SGLANG_DDTREE_MAX_TOPK": None},
        "reason": "named by hand with --trial",
        "proof": {"is_proven": False, "verdict": "not proven", "why": NOT_PROVEN.removeprefix("not proven: ")},
    }


def test_a_trial_may_be_named(run):
    result = run("export", "--trial", "4")

    assert "--speculative-ddtree-budget 20" in result.stdout
    assert "# Why this one:  named by hand with --trial\n" in result.stdout


def test_another_rule_may_choose(run):
    """Case 41: the rule is stated, and its reason is printed."""
    result = run("export", "--rule", "c32")

    assert "trial 3 is the fastest at C=32" in result.stderr


def test_a_rule_and_a_trial_exclude_each_other(run):
    result = run("export", "--rule", "c1", "--trial", "4")

    assert result.exit_code == 2
    assert "give only one of them" in result.stderr


def test_a_trial_that_is_not_complete_is_refused_with_its_reason(run):
    result = run("export", "--trial", "5")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "trial 5 is pruned: after stage busy" in result.stderr
    assert "export a complete trial: 0, 1, 2, 3, 4, 8" in result.stderr


def test_a_profile_measured_nothing_that_could_be_exported(run_elsewhere):
    folder = Path("studies") / "sample"
    write_study(folder)
    with Study.open(sample_settings(), folder) as study:
        number = study.begin(Suggestion(study.space.parse("budget=8,topk=8"), TrialKind.PROFILE))
        study.complete_profile(number)

    result = run_elsewhere("export", "--trial", str(number))

    assert result.exit_code == 2
    assert f"trial {number} is a profile, which measures no speed" in result.stderr
    assert "export a complete trial: 0, 1, 2, 3, 4, 8" in result.stderr


def test_a_trial_that_does_not_exist_is_refused(run):
    result = run("export", "--trial", "99")

    assert result.exit_code == 2
    assert "there is no trial 99" in result.stderr


def test_the_command_of_a_unit_is_kept_but_for_the_tuned_flags(run, tmp_path):
    """Case 63: unchanged flags of the base command are kept in order."""
    unit = tmp_path / "sglang.service"
    unit.write_text(
        "[Service]\nEnvironment=SGLANG_DDTREE_MAX_TOPK=2\nExecStart=/usr/bin/python3 -m sglang.launch_server \\\n"
        "  --port 30000 --speculative-ddtree-budget 32 --tp-size=8 --speculative-draft-window-size=512 \\\n"
        "  --log-level '%i info'\n"
    )

    lines = run("export", "--unit", unit).stdout.splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        "[Service]",
        'Environment="SGLANG_DDTREE_MAX_TOPK=4"',
        "ExecStart=",
        (
            "ExecStart=/usr/bin/python3 -m sglang.launch_server --port 30000 --tp-size=8 --log-level '%i info' "
            "--speculative-algorithm DDTREE --speculative-ddtree-budget 8 --speculative-num-draft-tokens 16"
        ),
    ]


def test_a_unit_without_a_command_is_refused(run, tmp_path):
    unit = tmp_path / "empty.service"
    unit.write_text("[Service]\nType=simple\n")

    result = run("export", "--unit", unit)

    assert result.exit_code == 2
    assert "the unit has 0 ExecStart= commands" in result.stderr


def test_options_of_an_apply_need_an_apply(run):
    result = run("export", "--yes")

    assert result.exit_code == 2
    assert "belong to --apply" in result.stderr


def test_an_apply_prints_no_data(run):
    result = run("export", "--apply", "--json")

    assert result.exit_code == 2
    assert "do not go with it" in result.stderr


def test_an_apply_needs_a_service(run):
    result = run("export", "--apply", "--yes")

    assert result.exit_code == 2
    assert "study sample tunes no service" in result.stderr


def test_the_name_of_the_drop_in_names_a_file_of_its_folder(run):
    for name in ("../x.conf", ".conf", "x.txt"):
        result = run("export", "--apply", "--unit", "x.service", "--name", name)

        assert result.exit_code == 2
        assert "is no name of a drop-in" in result.stderr


def test_a_unit_file_that_is_not_there_is_named(run):
    result = run("export", "--unit", "no-such-file")

    assert result.exit_code == 2
    assert "no-such-file cannot be read" in result.stderr


class ApplyElsewhere:
    """Stands for a host: remembers what it was given, and what was said before the question."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *, is_up: bool) -> None:
        self.capsys = capsys
        self.header: list[str] = []
        self.said_before = ""
        self.prepared = SimpleNamespace(is_applied=False, diff=("+the drop-in",), is_up=is_up, wanted=None)
        service = SimpleNamespace(unit="llm.service", host=SimpleNamespace(name="gpu1"))
        self.site: Any = SimpleNamespace(service=service, file=SimpleNamespace(path="/etc/x.conf"))

    def prepare(self, _site: object, _candidate: object, header: list[str]) -> SimpleNamespace:
        self.header = header
        return self.prepared

    def confirm(self, *_: object, **__: object) -> None:
        self.said_before = self.capsys.readouterr().err

    def apply(self, *_: object, **__: object) -> None:
        """Change nothing."""


@pytest.mark.parametrize("is_up", [True, False])
def test_an_apply_says_before_it_asks_what_is_not_proven_and_afterwards_what_undoes_it(
    stored, monkeypatch, capsys, is_up
):
    host = ApplyElsewhere(capsys, is_up=is_up)
    monkeypatch.setattr(export, "prepare", host.prepare)
    monkeypatch.setattr(export, "apply", host.apply)
    monkeypatch.setattr(service_change, "confirm", host.confirm)
    view = load_study(stored / "studies" / "sample")
    findings = find(view)
    assert findings.choice is not None
    signals: Any = None

    export._apply(
        host.site,
        signals,
        view,
        findings,
        findings.choice,
        undo="autotune rollback sample",
        is_agreed=True,
        start=False,
        drain=False,
    )

    said = capsys.readouterr().err
    assert f"Gain:          {NOT_PROVEN}" in host.header
    assert NOT_PROVEN in host.said_before
    assert said.endswith("`autotune rollback sample` undoes it\n")
    assert ("was not started" in said) is not is_up


def test_the_command_that_undoes_names_the_same_service():
    command = export._rollback_command("mine", Path("my data"), host="root@gpu1", ssh_config=None, unit="llm.service")

    assert command == "autotune rollback mine --study-directory 'my data' --host root@gpu1 --unit llm.service"
