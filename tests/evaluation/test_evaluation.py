from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import NothingSucceeded, ProblemSetChanged, SandboxUnavailable, SettingsError, TooManyFailures
from autotune.evaluation.evaluation import Evaluation
from autotune.evaluation.problem import hash_problems, load_problems
from autotune.evaluation.sandbox import Sandbox
from autotune.pass_rate import wilson_interval
from autotune.settings import EvaluationSettings, SamplingSettings
from autotune.trial import Verdict
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
    assert ["evaluation", *["request"] * 20, *["verdict"] * 20, "evaluated"] == [line["type"] for line in written]
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
