"""`autotune evaluate URL`, in text and as data, and two saved evaluations against each other."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from autotune.cli.evaluate_progress import EvaluateProgress
from autotune.cli.evaluation_comparison import show_evaluation_comparison
from autotune.errors import UserError
from autotune.evaluation.problem import load_problems
from autotune.evaluation.saved_evaluation import is_evaluation, load_evaluation, save_evaluation
from autotune.measuring_mark import Work
from autotune.trial import Verdict
from tests.cli.conftest import run_command
from tests.evaluation.answering_server import Answer, answering_server
from tests.evaluation.test_evaluation import name_in, right
from tests.test_measuring_mark import working_elsewhere

NAMES = [problem.entry_point for problem in load_problems(9)]


def answer(prompt: str, wrong: frozenset[str] = frozenset()) -> Answer:
    if "`" not in prompt:
        return Answer("Hello.")
    if name_in(prompt) in wrong:
        return Answer(f"```python\ndef {name_in(prompt)}(*x): return 'no'\n```", tokens=40, pieces=3)
    return Answer(right(prompt).content, tokens=40, pieces=3)


def evaluate(path: Path, *words: str, wrong: frozenset[str] = frozenset(), problems: int = 9):
    with answering_server(lambda prompt: answer(prompt, wrong)) as server:
        return run_command("evaluate", server.url, "--problems", str(problems), "--save", str(path), *words), server


def test_a_server_is_evaluated_and_what_did_not_pass_is_explained(tmp_path):
    result, server = evaluate(tmp_path / "a.json", wrong=frozenset(NAMES[:2]))

    assert result.exit_code == 0, result.output
    table = result.stdout.splitlines()
    assert re.split(r"\s{2,}", table[0])[:4] == ["difficulty", "problems", "passed", "wrong"]
    assert [line.split()[:4] for line in table[1:5]] == [
        ["easy", "3", "2", "1"],
        ["medium", "3", "2", "1"],
        ["hard", "3", "3", "0"],
        ["all", "9", "7", "2"],
    ]
    assert "77.8%" in table[4]
    assert f"{NAMES[0]}: wrong: test 1:" in result.stdout
    assert "tokens/s over whole answers" in result.stdout
    assert "C=16" in result.stdout
    assert "prepared at http://127.0.0.1" in result.stderr
    assert "9 of 9 answers" in result.stderr
    assert "autotune compare" in result.stderr
    requests = [request for request in server.asked if request["max_tokens"] == 2048]
    assert len(requests) == 9
    records = [json.loads(line)["type"] for line in (tmp_path / "a.json.answers.jsonl").read_text().splitlines()]
    assert records.count("verdict") == 9


def test_data_goes_to_stdout_alone(tmp_path):
    result, _ = evaluate(tmp_path / "a.json", "--json")
    document = json.loads(result.stdout)

    assert document["kind"] == "evaluation"
    assert document["measurement"]["pass_at_1"]["value"] == 1.0
    assert document["settings"]["concurrency"] == 16
    assert document == json.loads((tmp_path / "a.json").read_text())


def test_what_is_asked_is_stated_by_the_options(tmp_path):
    options = [
        "--temperature",
        "0.7",
        "--top-p",
        "0.9",
        "--seed",
        "5",
        "--no-thinking",
        "--max-tokens",
        "300",
        "--samples",
        "2",
        "--concurrency",
        "3",
    ]
    result, server = evaluate(tmp_path / "a.json", *options, problems=3)

    assert result.exit_code == 0, result.output
    asked = [request for request in server.asked if request["max_tokens"] == 300]
    assert len(asked) == 6
    assert {(request["temperature"], request["top_p"]) for request in asked} == {(0.7, 0.9)}
    assert {request["seed"] for request in asked} == {5, 6, 7, 10005, 10006, 10007}
    assert all(request["chat_template_kwargs"] == {"thinking": False} for request in asked)
    assert "pass@2: 100.0%" in result.stdout


def test_several_greedy_answers_are_refused_before_anything_is_asked(tmp_path):
    result, server = evaluate(tmp_path / "a.json", "--samples", "3")

    assert result.exit_code == 2
    assert "--samples 3 asks for several greedy answers" in result.stderr
    assert not server.asked


def test_a_saved_evaluation_comes_back_as_it_was(tmp_path):
    evaluate(tmp_path / "a.json", problems=3)
    result = load_evaluation(tmp_path / "a.json")
    save_evaluation(result, tmp_path / "b.json")

    assert is_evaluation(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert [item.verdict for item in result.measurement.results] == [Verdict.PASSED] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "is no result of an evaluation"),
        ('{"kind": "benchmark"}', "is no result of an evaluation"),
        ('{"kind": "evaluation", "format": 9}', "format 9"),
        ('{"kind": "evaluation", "format": 1, "url": 3}', "is damaged at"),
    ],
)
def test_a_file_that_is_no_evaluation_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)

    with pytest.raises(UserError, match=message):
        load_evaluation(tmp_path / "a.json")


def test_a_share_that_nothing_measures_is_damage_of_the_file(tmp_path):
    evaluate(tmp_path / "a.json", problems=3)
    document = json.loads((tmp_path / "a.json").read_text())
    document["measurement"]["pass_at_1"]["high"] = 1e308
    (tmp_path / "a.json").write_text(json.dumps(document))

    with pytest.raises(UserError, match=r"damaged at measurement\.pass_at_1"):
        load_evaluation(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        (6, "the second is worse: over 9 problems 0 better, 6 worse; pass@1 -66.7 points, exact paired test p = 0.031"),
        (2, "no difference shown: over 9 problems 0 better, 2 worse; pass@1 -22.2 points, exact paired test p = 0.5"),
        (0, "no difference shown: over 9 problems 0 better, 0 worse; pass@1 +0.0 points, exact paired test p = 1"),
    ],
)
def test_two_saved_evaluations_are_compared_by_the_exact_paired_test(tmp_path, capsys, lost, verdict):
    evaluate(tmp_path / "a.json")
    evaluate(tmp_path / "b.json", wrong=frozenset(NAMES[:lost]))

    show_evaluation_comparison(tmp_path / "a.json", tmp_path / "b.json", as_json=False)
    shown = capsys.readouterr().out

    assert f"verdict: {verdict}" in shown
    assert shown.count("1/1 -> 0/1 passed; wrong: test 1") == lost
    show_evaluation_comparison(tmp_path / "a.json", tmp_path / "b.json", as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["worse"], document["verdict"]) == (lost, verdict)
    assert document["decode_speed"] is not None


def test_evaluations_of_different_problems_are_not_compared(tmp_path):
    evaluate(tmp_path / "a.json", problems=3)
    evaluate(tmp_path / "b.json", problems=4)

    with pytest.raises(UserError, match="asked different problems"):
        show_evaluation_comparison(tmp_path / "a.json", tmp_path / "b.json", as_json=False)


def test_what_was_asked_differently_is_said(tmp_path, capsys):
    evaluate(tmp_path / "a.json", problems=3)
    evaluate(tmp_path / "b.json", "--max-tokens", "99", "--concurrency", "2", problems=3)

    show_evaluation_comparison(tmp_path / "a.json", tmp_path / "b.json", as_json=False)
    shown = capsys.readouterr().out

    assert "note: max_tokens differs: 2048 in the first, 99 in the second" in shown
    assert "speeds are not compared" in shown


def test_progress_without_a_terminal_is_a_line_at_times_with_the_time_left(capsys):
    ticks = itertools.count(0.0, 10.0)
    with EvaluateProgress(is_live=False, clock=lambda: next(ticks)) as progress:
        for done in range(1, 11):
            progress.take("answers", done, 10)
        progress.take("verdicts", 10, 10)

    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "3 of 10 answers; about 1 min 10 s left",
        "6 of 10 answers; about 40 s left",
        "9 of 10 answers; about 10 s left",
        "10 of 10 answers",
        "10 of 10 verdicts",
    ]


def test_compare_takes_evaluations_too_and_no_mixture(tmp_path):
    evaluate(tmp_path / "a.json", problems=3)
    (tmp_path / "bench.json").write_text('{"kind": "benchmark"}')

    same = run_command("compare", tmp_path / "a.json", tmp_path / "a.json")
    mixed = run_command("compare", tmp_path / "a.json", tmp_path / "bench.json")

    assert "verdict: no difference shown: over 3 problems 0 better, 0 worse" in same.stdout
    assert same.exit_code == 0
    assert mixed.exit_code == 2


def test_nothing_is_judged_where_something_is_measured(tmp_path):
    with working_elsewhere(Work.MEASURING) as pid:
        result, server = evaluate(tmp_path / "a.json")

    assert result.exit_code == 3
    assert f"process {pid} of autotune measures on this machine" in result.stderr
    assert not server.asked


def test_another_evaluation_at_the_same_time_is_named(tmp_path):
    with working_elsewhere(Work.JUDGING) as pid:
        result, _ = evaluate(tmp_path / "a.json", problems=3)

    assert result.exit_code == 0
    assert f"process {pid} of autotune judges on this machine too" in result.stderr


def test_progress_on_a_terminal_is_a_bar_with_the_time_left():
    ticks = itertools.count(0.0, 10.0)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with EvaluateProgress(is_live=True, console=console, clock=lambda: next(ticks)) as progress:
        progress.take("answers", 5, 10)
        progress.take("verdicts", 1, 10)

    assert "5 of 10 answers" in screen.getvalue()
    assert "about 10 s left" in screen.getvalue()
    assert "1 of 10 verdicts" in screen.getvalue()
