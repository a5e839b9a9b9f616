"""The hook logs what a server's worker drafts, and steps aside where the server is laid out in another way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from autotune.draft_hook import FILE, FOLDER, KEPT_FREE_BYTES, LIMIT_BYTES, VARIABLES, sitecustomize
from autotune.replay.chain_walk import walk
from autotune.replay.draft_log import LoggedAnswer, read_answers
from autotune.search_space import load_search_space
from autotune.servers.base import DraftLogPlace
from autotune.servers.sglang import SglangDialect
from autotune.settings import ServerSettings
from tests.draft_hook.layout import UTILS, WORKER, WORKER_CLASS, write_layout

ROOT = Path(__file__).parent.parent.parent

ONE_STEP = """
from types import SimpleNamespace as S
import torch
from sglang.srt.speculative.ddtree_worker import DDTreeWorker
worker = DDTreeWorker(0)
worker.logits = torch.zeros(1, 7, 5)
request = S(rid="a", origin_input_ids=[1, 2], output_ids=[3], finished=lambda: False)
worker._prepare_for_speculative_decoding(
    S(reqs=[request], seq_lens=torch.tensor([2])), S(verified_id=torch.tensor([3]))
)
print("served")
"""


class Step:
    """One step of a worker of the layout, in this process."""

    def __init__(self, log: Path, topk: int = 8, limit_bytes: int = 2**20) -> None:
        self.module = ModuleType("ddtree_worker")
        exec(compile(UTILS, "utils", "exec"), self.module.__dict__)  # noqa: S102 - text of these tests
        exec(compile(WORKER_CLASS, "worker", "exec"), self.module.__dict__)  # noqa: S102 - same
        self.hook = sitecustomize._Hook(str(log), topk, limit_bytes)
        self.hook.guard(lambda: self.hook.patch(self.module))
        self.worker = self.module.DDTreeWorker(0)
        self.worker.logits = torch.zeros(1, 7, 5)
        self.requests = [self.request("a")]
        self.batch = SimpleNamespace(reqs=self.requests, seq_lens=torch.tensor([2]))
        self.draft_input = SimpleNamespace(verified_id=torch.tensor([3]))

    @staticmethod
    def request(rid: str) -> SimpleNamespace:
        return SimpleNamespace(rid=rid, origin_input_ids=[1, 2], output_ids=[3], finished=lambda: True)

    def take(self) -> None:
        self.worker._prepare_for_speculative_decoding(self.batch, self.draft_input)
        assert self.worker.built == (self.worker.logits, 8, "cpu", self.draft_input)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_layout(tmp_path / "layout")


def run(arguments: list[str], layout: Path, log: Path | None, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(FOLDER), str(layout), str(ROOT)])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}
    if log is not None:
        environment["AUTOTUNE_DRAFT_LOG"] = str(log)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def read(path: Path) -> list[LoggedAnswer]:
    with path.open("rb") as lines:
        return list(read_answers(lines, str(path)))


def test_the_log_of_the_hook_replays_as_the_embedded_servers_own(layout: Path, tmp_path: Path) -> None:
    own, hooked = tmp_path / "own.jsonl", tmp_path / "hooked.jsonl"

    done = run(
        ["-m", "tests.draft_hook.hooked_engine", str(own), "7", "0"], layout, hooked, AUTOTUNE_DRAFT_LOG_TOPK="12"
    )

    assert (done.returncode, done.stderr) == (0, "")
    ours, theirs = read(own), read(hooked)
    assert len(ours) == len(theirs) == 7
    whole = [len(mine.text) == len(other.text) for mine, other in zip(ours, theirs, strict=True)]
    assert sum(whole) >= 4  # who ends in the very last steps is not heard of any more
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.prompt_tokens == other.prompt_tokens
        assert mine.text[: len(other.text)] == other.text
        assert len(mine.drafts[None]) == len(other.drafts[None])
        for (place, tokens, logprobs), (found, found_tokens, found_logprobs) in zip(
            mine.drafts[None], other.drafts[None], strict=True
        ):
            assert place == found
            assert np.allclose(logprobs, found_logprobs, atol=3e-5)
            is_clear = np.abs(np.diff(logprobs, axis=1)).min() > 1e-4
            assert not is_clear or (tokens == found_tokens).all()
    complete = [(mine, other) for mine, other, is_whole in zip(ours, theirs, whole, strict=True) if is_whole]
    walks = []
    for answers in zip(*complete, strict=True):
        texts = [text for answer in answers if (text := answer.with_window(None)) is not None]
        walked = walk(texts, topks=[1, 4, 12], largest_budget=24, positions=7)
        walks.append(walked.tokens.sum(0) / walked.steps.sum(0))
    assert np.allclose(walks[0], walks[1], rtol=1e-3)
    assert walks[0].max() > 1.5


def test_only_the_first_of_the_processes_that_share_a_model_writes(layout: Path, tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"

    done = run(["-m", "tests.draft_hook.hooked_engine", str(tmp_path / "own"), "2", "1"], layout, log)

    assert (done.returncode, done.stderr) == (0, "")
    assert not log.exists()


def test_nothing_is_done_without_its_variable(layout: Path, tmp_path: Path) -> None:
    done = run(["-c", ONE_STEP], layout, None)

    assert (done.stdout, done.stderr) == ("served\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["layout"]


def test_processes_that_the_server_spawns_log_too(layout: Path, tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ONE_STEP!r}])"

    assert run(["-c", code], layout, log).stdout == "served\n"
    assert read(log)[0].text == [3]


def test_the_module_of_the_same_name_behind_it_is_loaded_too(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own_site = 'loaded'\n")
    path = os.pathsep.join([str(FOLDER), str(tmp_path)])

    done = run(["-c", "import sys; print(sys.own_site)"], layout, None, PYTHONPATH=path)

    assert done.stdout == "loaded\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("class DDTreeWorker", "class OtherWorker", "has no DDTreeWorker"),
        ("_prepare_for_speculative_decoding", "_prepare", "has no _prepare_for_speculative_decoding"),
        ("self, batch, draft_input)", "self, batch, draft_input_v2)", "takes no draft_input"),
        ("import build_ddtree_tree", "import build_ddtree_tree as build", "has no build_ddtree_tree"),
    ],
)
def test_it_steps_aside_where_the_module_is_another(layout: Path, tmp_path: Path, old: str, new: str, why: str) -> None:
    module = layout / WORKER
    module.write_text(module.read_text().replace(old, new))

    done = run(["-c", "import sglang.srt.speculative.ddtree_worker; print('served')"], layout, tmp_path / "log")

    assert done.stdout == "served\n"
    assert done.stderr.startswith("autotune draft hook steps aside: ")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "log").exists()


def test_it_steps_aside_where_there_is_no_worker(layout: Path, tmp_path: Path) -> None:
    (layout / WORKER).unlink()

    done = run(["-c", "import sglang.srt.speculative; print('served')"], layout, tmp_path / "log")

    assert done.stdout == "served\n"
    assert done.stderr == ("autotune draft hook steps aside: this SGLang has no sglang.srt.speculative.ddtree_worker\n")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda step: setattr(step.worker, "logits", torch.zeros(7, 5)), "drafts of the shape (7, 5) for 1 requests"),
        (lambda step: delattr(step.draft_input, "verified_id"), "neither verified_id nor bonus_tokens"),
        (lambda step: delattr(step.batch, "reqs"), "has no reqs"),
        (lambda step: step.batch.seq_lens.add_(1), "a request of 2 + 1 tokens is drafted for at 3"),
        (lambda step: step.draft_input.verified_id.add_(1), "behind the token 4"),
        (lambda step: delattr(step.worker, "tp_rank"), "has no tp_rank"),
        (lambda step: setattr(step.worker, "logits", "text"), "str has no shape"),
        (lambda step: setattr(step.requests[0], "output_ids", ["x"]), "ValueError"),
    ],
)
def test_it_steps_aside_where_a_step_is_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Step], object], why: str
) -> None:
    step = Step(tmp_path / "log")
    change(step)

    step.take()
    step.take()

    said = capsys.readouterr().err
    assert said.startswith("autotune draft hook steps aside: ")
    assert why in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "log").exists()


def test_it_steps_aside_where_its_log_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Step(tmp_path / "missing" / "log").take()

    assert "steps aside: FileNotFoundError" in capsys.readouterr().err


def test_the_pull_request_before_is_logged_too(tmp_path: Path) -> None:
    step = Step(tmp_path / "log")
    step.draft_input = SimpleNamespace(bonus_tokens=torch.tensor([[3]]))

    step.take()

    assert read(tmp_path / "log")[0].prompt_tokens == 2


def test_an_error_of_the_server_itself_stays_its_own(tmp_path: Path) -> None:
    step = Step(tmp_path / "log")

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        step.worker._prepare_for_speculative_decoding(step.batch)


def test_a_request_that_waits_goes_on_where_it_was(tmp_path: Path) -> None:
    step = Step(tmp_path / "log")
    step.requests.append(step.request("b"))
    first, second = step.requests
    second.finished = lambda: False
    step.batch.seq_lens, step.worker.logits = torch.tensor([2, 2]), torch.zeros(2, 7, 5)
    step.draft_input.verified_id = torch.tensor([3, 3])
    step.take()
    step.batch.reqs, step.batch.seq_lens = [first], torch.tensor([3])
    step.draft_input.verified_id, step.worker.logits = torch.tensor([4]), torch.zeros(1, 7, 5)
    first.output_ids.append(4)
    step.take()
    step.batch.reqs, second.output_ids = [second], [3, 4]
    first.output_ids.append(5)
    step.take()

    assert [(answer.text, len(answer.drafts[None])) for answer in read(tmp_path / "log")] == [
        ([3, 4, 5], 2),
        ([3, 4], 2),
    ]


@pytest.mark.parametrize(("topk", "ranks"), [(2, 2), (50, 5)])
def test_as_many_tokens_as_asked_for_are_logged(tmp_path: Path, topk: int, ranks: int) -> None:
    Step(tmp_path / "log", topk).take()

    assert read(tmp_path / "log")[0].drafts[None][0][1].shape == (7, ranks)


@pytest.mark.parametrize("name", ["AUTOTUNE_DRAFT_LOG_TOPK", "AUTOTUNE_DRAFT_LOG_LIMIT_BYTES"])
def test_a_wrong_number_is_said(layout: Path, tmp_path: Path, name: str) -> None:
    done = run(["-c", "print('served')"], layout, tmp_path / "log", **{name: "many"})

    assert done.stdout == "served\n"
    assert f"{name} is 'many'" in done.stderr


def test_the_log_ends_with_a_whole_line_before_it_is_larger_than_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Step(tmp_path / "one").take()
    line_bytes = (tmp_path / "one").stat().st_size
    step = Step(tmp_path / "log", limit_bytes=3 * line_bytes + 1)
    for _ in range(5):
        step.take()
        step.requests[0].output_ids.append(3)
        step.batch.seq_lens.add_(1)

    assert 2 * line_bytes < (tmp_path / "log").stat().st_size <= 3 * line_bytes + 1
    assert len(read(tmp_path / "log")[0].drafts[None]) == 3
    assert f"may not grow beyond {3 * line_bytes + 1} bytes" in capsys.readouterr().err


def test_a_file_written_by_several_processes_has_one_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n" * 1000)
    Step(log, limit_bytes=1000).take()

    assert log.stat().st_size == 1000
    assert "may not grow beyond 1000 bytes" in capsys.readouterr().err


def test_a_full_file_system_is_left_its_last_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(f_bavail=64 * 2**20 // 4096, f_frsize=4096)
    monkeypatch.setattr("os.fstatvfs", lambda _file: room)
    Step(tmp_path / "log").take()

    assert (tmp_path / "log").read_bytes() == b""
    assert "would leave less than 67108864 bytes" in capsys.readouterr().err


def test_a_launch_of_the_dialect_makes_a_server_log(layout: Path, tmp_path: Path) -> None:
    log = tmp_path / "drafts.jsonl"
    paths = os.pathsep.join([str(layout), str(ROOT)])
    server = ServerSettings(command=("server",), environment={"PYTHONPATH": paths})
    space = load_search_space("ddtree")
    dialect = SglangDialect(space, server, has_draft_hook=True)
    place = DraftLogPlace(str(log), str(FOLDER), "", LIMIT_BYTES)
    launch = dialect.render_profile(space.parse("budget=16,topk=4"), place, ())
    assert launch is not None
    variables = {name: value for name, value in launch.environment.items() if value is not None}

    done = run(["-c", ONE_STEP], layout, None, **variables)

    assert (done.stdout, done.stderr) == ("served\n", "")
    assert read(log)[0].drafts[None][0][1].shape == (7, 4)


def test_the_file_says_the_same_as_the_package_that_it_cannot_import() -> None:
    text = FILE.read_text()

    assert (sitecustomize._LIMIT_BYTES, sitecustomize._KEEP_FREE_BYTES) == (LIMIT_BYTES, KEPT_FREE_BYTES)
    assert all(f'"{name}"' in text for name in VARIABLES if name != "PYTHONPATH")
