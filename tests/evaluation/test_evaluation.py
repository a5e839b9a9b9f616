from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import NothingSucceeded, ProblemSetChanged, SandboxUnavailable, SettingsError, TooManyFailures
from autotune.evaluation import sandbox as sandbox_module
from autotune.evaluation.evaluation import Evaluation
from autotune.evaluation.problem import hash_problems, load_problems
from autotune.evaluation.sandbox import DEMANDED, Sandbox
from autotune.pass_rate import wilson_interval
from autotune.settings import EvaluationSettings, SamplingSettings
from autotune.trial import Cell, Verdict
from tests.evaluation.answering_server import Answer, answering_server
from tests.evaluation.test_problem import SOLUTIONS

SETTINGS = EvaluationSettings(problems=10, concurrency=5, max_tokens=99, time_limit_s=30.0)


def name_in(prompt: str) -> str:
    found = re.search(r"`(\w+)\(", prompt)
    assert found is not None
    return found[1]


def right(prompt: str) -> Answer:
    return Answer(f"Here:\n```python\n{SOLUTIONS[name_in(prompt)]}\n```\n")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_right_answers_pass_in_the_order_of_the_problems(tmp_path):
    with answering_server(right) as server:
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert [problem.entry_point for problem in load_problems(10)] == [item.problem for item in measurement.results]
    assert {item.verdict for item in measurement.results} == {Verdict.PASSED}
    assert measurement.problem_set == hash_problems(load_problems(10))
    assert (measurement.pass_at_1.value, measurement.pass_at_1.count) == (1.0, 10)
    assert (measurement.pass_at_1.low, measurement.pass_at_1.high) == wilson_interval(10, 10)
    assert measurement.tokens_per_s is not None
    assert measurement.tokens_per_s > 100 / measurement.duration_s


def test_every_request_states_its_sampling_and_the_same_seed_each_time(tmp_path):
    """case 27"""
    sampling = SamplingSettings(temperature=0.6, top_p=0.95, top_k=40, seed=7, thinking=False)
    settings = SETTINGS.model_copy(update={"sampling": sampling})
    asked = []
    for round_ in range(2):
        with answering_server(right) as server:
            Evaluation(server.url, settings, tmp_path / f"{round_}.jsonl").run()
        asked.append(sorted(server.asked, key=lambda request: request["seed"]))

    assert asked[0] == asked[1]
    for index, request in enumerate(asked[0]):
        assert (0.6, 0.95, 40, 7 + index) == tuple(request[key] for key in ("temperature", "top_p", "top_k", "seed"))
        assert (request["max_tokens"], request["ignore_eos"]) == (99, False)
        assert request["chat_template_kwargs"] == {"thinking": False}
        assert request["messages"] == [{"role": "user", "content": load_problems()[index].prompt}]


def test_nothing_of_the_hidden_tests_is_sent(tmp_path):
    with answering_server(right) as server:
        Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert len(server.asked) == 10
    assert "=>" not in json.dumps(server.asked)


def test_as_many_answers_are_asked_for_at_once_as_stated(tmp_path):
    with answering_server(right) as server:
        server.together = threading.Barrier(5)
        Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert server.most_at_once == 5


def test_nothing_is_judged_before_the_last_answer(tmp_path):
    seen: list[tuple[str, int, int]] = []
    with answering_server(right) as server:
        evaluation = Evaluation(
            server.url, SETTINGS, tmp_path / "a.jsonl", on_progress=lambda *event: seen.append(event)
        )
        evaluation.run()

    assert [("answers", count, 10) for count in range(1, 11)] == seen[:10]
    assert [("verdicts", count, 10) for count in range(1, 11)] == seen[10:]


def test_each_kind_of_answer_gets_its_verdict_and_its_record(tmp_path):
    """case 52, case 54, case 17: a stream without an end is no answer."""
    names = [problem.entry_point for problem in load_problems(20)]
    fence = "```python\n{}\n```"
    answers = {
        names[0]: Answer(fence.format(f"def {names[0]}(*args): return object()")),
        names[1]: Answer(fence.format(f"def {names[1]}(*args): raise KeyError(1)")),
        names[2]: Answer("I do not know."),
        names[3]: Answer(f"<think>{fence.format(SOLUTIONS[names[3]])}", finish_reason="length"),
        names[4]: Answer(f"```python\n{SOLUTIONS[names[4]]}", finish_reason="length"),
        names[5]: Answer("", reasoning=fence.format(SOLUTIONS[names[5]])),
        names[6]: Answer(fence.format(SOLUTIONS[names[6]]), is_whole=False),
        names[7]: Answer(f"hm\n{fence.format('x = 0')}</think>{fence.format(SOLUTIONS[names[7]])}"),
        names[8]: Answer(status=500),
    }
    with answering_server(lambda prompt: answers.get(name_in(prompt)) or right(prompt)) as server:
        measurement = Evaluation(
            server.url, SETTINGS.model_copy(update={"problems": 20}), tmp_path / "answers.jsonl"
        ).run()
    found = [item.verdict for item in measurement.results]
    written = lines(tmp_path / "answers.jsonl")

    assert found[:9] == [
        Verdict.WRONG,
        Verdict.ERROR,
        Verdict.NO_CODE,
        Verdict.TRUNCATED,
        Verdict.TRUNCATED,
        Verdict.PASSED,
        Verdict.NO_ANSWER,
        Verdict.PASSED,
        Verdict.NO_ANSWER,
    ]
    assert set(found[9:]) == {Verdict.PASSED}
    assert (measurement.pass_at_1.value, measurement.pass_at_1.count) == (13 / 18, 18)
    assert "no room" in measurement.results[8].reason
    assert ["evaluation", *["request"] * 20, "text", *["verdict"] * 20, "evaluated"] == [
        line["type"] for line in written
    ]
    verdicts = {line["problem"]: line for line in written if line["type"] == "verdict"}
    assert verdicts[names[3]]["code"] is None
    assert "while it was thinking" in verdicts[names[3]]["rule"]
    assert verdicts[names[5]]["code"] == SOLUTIONS[names[5]]
    assert written[-1]["truncated_share"] == pytest.approx(2 / 18)
    assert "token limit" in written[-1]["notes"][0]


def test_the_accept_length_is_that_of_the_answers(tmp_path):
    with answering_server(right) as server:
        server.accept_length = 2.5
        server.generated = 5000
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert measurement.accept_length == pytest.approx((100 - 10) / (100 / 2.5))


def test_plain_decoding_has_no_accept_length(tmp_path):
    with answering_server(right) as server:
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl", speculative=False).run()

    assert measurement.accept_length is None


@pytest.mark.parametrize(("failures", "error"), [(10, NothingSucceeded), (2, TooManyFailures)])
def test_too_few_answers_are_no_score(tmp_path, failures, error):
    bad = {problem.entry_point for problem in load_problems(failures)}
    with answering_server(lambda prompt: Answer(status=500) if name_in(prompt) in bad else right(prompt)) as server:
        evaluation = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl")

        with pytest.raises(error, match=f"{10 - failures} of 10 coding problems were answered; .*no room"):
            evaluation.run()


def test_answers_that_do_not_fit_into_the_context_are_told_from_a_broken_server(tmp_path):
    with answering_server(lambda _prompt: Answer(status=400)) as server:
        evaluation = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl")

        with pytest.raises(NothingSucceeded) as caught:
            evaluation.run()

    assert "must fit into its context" in (caught.value.hint or "")


def test_other_problems_than_in_earlier_trials_stop_before_anything_is_asked(tmp_path):
    with answering_server(right) as server:
        evaluation = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl", problem_set="0123")

        with pytest.raises(ProblemSetChanged, match="earlier trials answered 0123"):
            evaluation.run()

    assert not server.asked


def test_without_a_sandbox_nothing_is_asked(tmp_path, monkeypatch):
    def refuse(_self: Sandbox) -> None:
        raise SandboxUnavailable("no Landlock")

    monkeypatch.setattr(Sandbox, "check", refuse)
    with answering_server(right) as server:
        evaluation = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl")

        with pytest.raises(SandboxUnavailable):
            evaluation.run()

    assert not server.asked


def test_more_problems_than_exist_are_a_wrong_setting(tmp_path):
    settings = SETTINGS.model_copy(update={"problems": 81})

    with pytest.raises(SettingsError, match="81 coding problems"):
        Evaluation("http://127.0.0.1:9", settings, tmp_path / "answers.jsonl").run()


SAMPLED = SamplingSettings(temperature=0.8, top_p=0.95, seed=3)


def test_each_problem_is_answered_several_times_with_seeds_of_their_own(tmp_path):
    """Every second answer to the first problem is wrong: pass@1 says a half for it, pass@2 that one of two passes."""
    settings = SETTINGS.model_copy(update={"samples": 2, "sampling": SAMPLED})
    first = load_problems(1)[0].entry_point
    count = 0

    def answer(prompt: str) -> Answer:
        nonlocal count
        if name_in(prompt) == first:
            count += 1
            if count % 2:
                return Answer(f"```python\ndef {first}(*x): return None\n```")
        return right(prompt)

    with answering_server(answer) as server:
        measurement = Evaluation(server.url, settings, tmp_path / "answers.jsonl").run()

    assert len({request["seed"] for request in server.asked}) == 20
    assert [(item.problem, item.sample) for item in measurement.results] == [
        (problem.entry_point, sample) for problem in load_problems(10) for sample in range(2)
    ]
    assert measurement.pass_at_1.value == pytest.approx(0.95)
    assert measurement.pass_at_1.count == 20
    assert measurement.pass_at_k is not None
    assert (measurement.pass_at_k.value, measurement.pass_at_k.count) == (1.0, 10)
    verdicts = [line for line in lines(tmp_path / "answers.jsonl") if line["type"] == "verdict"]
    assert sorted(line["sample"] for line in verdicts) == [0] * 10 + [1] * 10


def test_one_answer_each_has_no_pass_at_k(tmp_path):
    with answering_server(right) as server:
        assert Evaluation(server.url, SETTINGS, tmp_path / "a.jsonl").run().pass_at_k is None


def test_several_greedy_answers_are_refused():
    with pytest.raises(ValueError, match=r"samples above 1 need sampling\.temperature above 0"):
        EvaluationSettings(samples=2)


def test_what_has_not_come_within_the_limit_is_no_answer(tmp_path):
    hold = threading.Event()
    names = [problem.entry_point for problem in load_problems(10)]

    def answer(prompt: str) -> Answer:
        if name_in(prompt) == names[3]:
            hold.wait(20)
        return right(prompt)

    settings = SETTINGS.model_copy(update={"answers_limit_s": 1.5})
    with answering_server(answer) as server:
        try:
            measurement = Evaluation(server.url, settings, tmp_path / "answers.jsonl").run()
        finally:
            hold.set()

    assert [item.problem for item in measurement.results if item.verdict is Verdict.NO_ANSWER] == [names[3]]
    assert measurement.results[3].reason == "not answered within the 1.5 s for all answers"
    assert measurement.pass_at_1.count == 9


def test_the_speed_of_the_answers_is_a_cell_at_their_concurrency(tmp_path):
    def answer(prompt: str) -> Answer:
        return Answer(right(prompt).content, tokens=40, pieces=4)

    with answering_server(answer) as server:
        server.accept_length = 2.5
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    cell = measurement.cell
    assert cell is not None
    assert cell.cell == Cell(7, 5)
    assert (cell.requests, cell.succeeded, cell.output_tokens) == (10, 10, 400)
    assert cell.accept_length is not None
    assert cell.accept_length.value == measurement.accept_length
    assert cell.total_tokens_per_s.value == pytest.approx(measurement.tokens_per_s)


def test_answers_in_one_piece_have_a_score_and_no_cell(tmp_path):
    with answering_server(right) as server:
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert measurement.cell is None
    assert any("no speed for the coding answers" in note for note in measurement.notes)


def test_degenerate_text_is_said_before_anything_about_the_score(tmp_path):
    with answering_server(lambda _prompt: Answer("the answer is " * 200)) as server:
        measurement = Evaluation(server.url, SETTINGS, tmp_path / "answers.jsonl").run()

    assert measurement.notes[0] == "degenerate text: 10 of 10 answers repeat themselves at the end"
    (text,) = [line for line in lines(tmp_path / "answers.jsonl") if line["type"] == "text"]
    assert (text["repeated"], text["finish_reasons"]) == (10, {"stop": 10})
    assert measurement.pass_at_1.value == 0.0


def test_without_a_demanded_layer_programs_run_only_when_the_settings_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sandbox_module,
        "_START",
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import autotune.evaluation.confinement as c\n"
        "c._CREATE_RULESET = 9999\nfrom autotune.evaluation.isolated_program import main; main()",
    )
    with answering_server(right) as server:
        with pytest.raises(SandboxUnavailable, match="Landlock is not offered"):
            Evaluation(server.url, SETTINGS, tmp_path / "a.jsonl").run()
        assert not server.asked
        settings = SETTINGS.model_copy(update={"isolation": "run generated code without isolation"})
        measurement = Evaluation(server.url, settings, tmp_path / "b.jsonl").run()

    assert measurement.pass_at_1.value == 1.0
    assert "generated code ran without Landlock, as the settings allow" in measurement.notes
    assert "Landlock" not in lines(tmp_path / "b.jsonl")[-1]["layers"]


def test_the_layers_that_held_are_on_record(tmp_path):
    with answering_server(right) as server:
        Evaluation(server.url, SETTINGS, tmp_path / "a.jsonl").run()

    assert set(DEMANDED) <= set(lines(tmp_path / "a.jsonl")[-1]["layers"])


def test_a_file_of_problems_is_asked_instead_of_ours(tmp_path):
    task = {
        "task_id": "HumanEval/900",
        "prompt": "def twice(x):\n",
        "entry_point": "twice",
        "canonical_solution": "    return 2 * x\n",
        "base_input": [[1], [2]],
        "plus_input": [],
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    settings = EvaluationSettings(problem_file=str(tmp_path / "tasks.jsonl"), time_limit_s=30.0)
    with answering_server(lambda _prompt: Answer("```\ndef twice(x): return x + x\n```")) as server:
        measurement = Evaluation(server.url, settings, tmp_path / "a.jsonl").run()

    assert [(item.problem, item.verdict) for item in measurement.results] == [("HumanEval/900", Verdict.PASSED)]
