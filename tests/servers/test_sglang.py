from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autotune.errors import HostError, MeasurementError, SettingsError
from autotune.search_space import load_search_space
from autotune.servers.base import DraftLogPlace, Phase
from autotune.servers.sglang import SglangDialect, can_log_drafts, wants_draft_hook
from autotune.settings import ProfileSettings, ServerSettings
from autotune.trial import ParameterValue
from tests.deployment.processes import free_port
from tests.records import make_settings

SPACE = load_search_space("ddtree")
TREE = SPACE.resolve({"budget": 16, "topk": 4, "window": 64})
PLAIN = SPACE.resolve({"budget": 0})
REPORTED: dict[str, ParameterValue] = {
    "speculative_algorithm": "DDTREE",
    "speculative_ddtree_budget": 16,
    "speculative_num_draft_tokens": 16,
    "speculative_draft_window_size": 64,
    "topk": 4,
}
Answers = Mapping[str, tuple[int, Any] | Callable[[Any], tuple[int, Any]]]


def dialect(**settings: Any) -> SglangDialect:
    return SglangDialect(SPACE, ServerSettings(**settings))


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    """A real HTTP server that gives these answers by path; bytes are sent as they are."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = answers.get(self.path, (404, {"detail": "Not Found"}))
            status, data = found(json.loads(body)) if callable(found) else found
            payload = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = answer  # noqa: N815  # the base class says so

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


EMBEDDED = {"command": ("autotune", "serve"), "proofs": ("best-first-tree",)}


PLACE = DraftLogPlace("/s/drafts.jsonl", "/opt/hook", "/opt/own", 1000)


def test_the_embedded_server_is_profiled_by_its_log_of_drafts():
    server = dialect(**EMBEDDED)

    launch = server.render_profile(TREE, PLACE, (32, 128))

    assert launch is not None
    usual = server.render_launch(TREE)
    flags = ("--draft-log", "/s/drafts.jsonl", "--draft-log-every-token", "--draft-log-windows", "32,128")
    assert launch.command == (*usual.command, *flags)
    assert launch.environment == usual.environment
    assert not launch.loads_hook
    without = server.render_profile(TREE, PLACE, ())
    assert without is not None
    assert "--draft-log-windows" not in without.command


@pytest.mark.parametrize(
    "changes", [{"command": ("python", "-m", "sglang.launch_server")}, {"proofs": ()}, {"command": ("autotune",)}]
)
def test_a_server_without_a_log_or_with_trees_of_another_rule_is_not_profiled(changes: dict[str, Any]):
    assert dialect(**(EMBEDDED | changes)).render_profile(TREE, PLACE, ()) is None


SGLANG = ServerSettings(
    command=("python3", "-m", "sglang.launch_server"),
    proofs=("best-first-tree",),
    environment={"PYTHONPATH": "/opt/site"},
)


def test_a_hooked_server_gets_the_hook_before_its_own_path_and_nothing_else():
    server = SglangDialect(SPACE, SGLANG, has_draft_hook=True)

    launch = server.render_profile(TREE, PLACE, (32,))

    usual = server.render_launch(TREE)
    assert launch is not None
    assert launch.command == usual.command
    hook = {
        "PYTHONPATH": "/opt/hook:/opt/site",
        "AUTOTUNE_DRAFT_LOG": "/s/drafts.jsonl",
        "AUTOTUNE_DRAFT_LOG_TOPK": "4",
        "AUTOTUNE_DRAFT_LOG_LIMIT_BYTES": "1000",
    }
    assert launch.environment == {**usual.environment, **hook}
    assert launch.loads_hook
    assert "AUTOTUNE_DRAFT_LOG" not in usual.environment


@pytest.mark.parametrize(
    ("ours", "own", "path"),
    [
        ({}, "/opt/own", "/opt/hook:/opt/own"),
        ({}, "", "/opt/hook"),
        ({"PYTHONPATH": "/opt/site"}, "/opt/own", "/opt/hook:/opt/site"),
    ],
)
def test_a_hooked_server_keeps_the_path_that_it_would_have(ours: dict[str, str], own: str, path: str):
    settings = SGLANG.model_copy(update={"environment": ours})
    place = replace(PLACE, python_path=own)

    launch = SglangDialect(SPACE, settings, has_draft_hook=True).render_profile(TREE, place, ())

    assert launch is not None
    assert launch.environment["PYTHONPATH"] == path


def test_chains_and_plain_decoding_have_no_drafts_that_a_hook_could_log():
    server = SglangDialect(SPACE, SGLANG, has_draft_hook=True)

    assert server.render_profile(PLAIN, PLACE, ()) is None
    assert server.render_profile(SPACE.resolve({"budget": 8, "topk": 4}), PLACE, ()) is None


@pytest.mark.parametrize(
    ("enabled", "changes", "is_wanted", "is_wanted_in_a_service"),
    [
        (True, {}, True, True),
        (False, {}, False, False),
        (None, {}, False, False),
        (True, {"proofs": ()}, False, False),
        (True, {"proofs": ("clipped-width", "depth-bonus-tree")}, True, True),
        (True, {"command": ("autotune", "serve")}, False, True),  # a service has its own command
    ],
)
def test_only_a_study_that_says_so_itself_has_its_server_hooked(
    enabled: bool | None, changes: dict[str, Any], is_wanted: bool, is_wanted_in_a_service: bool
):
    server = SGLANG.model_copy(update=changes)
    settings = make_settings(profile=ProfileSettings(enabled=enabled), server=server)
    service = settings.model_copy(update={"deployment": settings.deployment.model_copy(update={"kind": "systemd"})})

    assert wants_draft_hook(settings) == is_wanted
    assert wants_draft_hook(service) == can_log_drafts(service) == is_wanted_in_a_service


def test_a_launch_is_the_studys_command_with_the_configuration_and_the_address():
    launch = dialect(command=("autotune", "serve", "--enable-metrics"), port=4000).render_launch(TREE)

    words = " ".join(launch.command)
    assert launch.command[:5] == (sys.executable, "-m", "autotune", "serve", "--enable-metrics")
    assert "--speculative-algorithm DDTREE --speculative-ddtree-budget 16" in words
    assert "--speculative-draft-window-size 64" in words
    assert words.endswith("--host 127.0.0.1 --port 4000")
    assert launch.environment["SGLANG_DDTREE_MAX_TOPK"] == "4"


def test_plain_decoding_takes_every_trace_of_speculation_away():
    launch = dialect().render_launch(PLAIN)

    assert not any("speculative" in word for word in launch.command)
    assert launch.environment["SGLANG_DDTREE_MAX_TOPK"] is None


def test_another_program_is_taken_as_it_is_written_and_gets_its_address():
    launch = dialect(command=("python3", "-m", "sglang.launch_server"), port=7).render_launch(PLAIN)

    assert launch.command == ("python3", "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", "7")


def test_simulated_acceptance_is_refused_wherever_it_is_asked_for():
    with pytest.raises(SettingsError, match="SGLANG_SIMULATE_ACC_LEN"):
        dialect(environment={"SGLANG_SIMULATE_ACC_LEN": "3.5"})
    with pytest.raises(HostError, match="SGLANG_SIMULATE_ACC_LEN"):
        dialect().fetch_effective_flags("http://127.0.0.1:1", {"SGLANG_SIMULATE_ACC_LEN": "3.5"})

    assert dialect().render_launch(TREE).environment["SGLANG_SIMULATE_ACC_LEN"] is None


def test_what_a_server_reports_is_found_in_the_search_space():
    """Case 34: the server took another budget than it was asked for."""
    asked, taken = SPACE.resolve({"budget": 16, "topk": 4}), SPACE.resolve({"budget": 12, "topk": 4})
    reported = dict(SPACE.reported(taken))

    assert dialect().find_mismatches(asked, reported)
    assert dialect().find_configuration(reported) == taken
    assert dialect().find_configuration({**reported, "speculative_ddtree_budget": 1_000_003}) is None


def test_nobody_listening_is_refused():
    assert dialect().probe(f"http://127.0.0.1:{free_port()}").phase is Phase.REFUSED


@pytest.mark.parametrize(
    "answer",
    [
        (503, {"error": "starting"}),
        (200, {"text": ""}),
        (200, {"text": "  \n"}),
        (200, {"text": None}),
        (200, ["text"]),
        (200, b"not json"),
        (404, b""),
        (500, b"\xff\xfe"),
    ],
)
def test_anything_but_text_is_not_yet(answer: tuple[int, Any]):
    """Case 1, and a status alone is no proof."""
    with serving({"/generate": answer}) as url:
        assert dialect().probe(url).phase is Phase.UNREADY


def test_the_api_key_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch):
    """A host is put back without one."""
    asking = dialect(api_key_variable="THE_KEY")
    monkeypatch.delenv("THE_KEY", raising=False)
    assert asking.render_launch(PLAIN).command

    with serving({"/generate": (200, {"text": " a + b"})}) as url:
        with pytest.raises(SettingsError, match="THE_KEY is not set"):
            asking.probe(url)
        monkeypatch.setenv("THE_KEY", "sk-hidden")
        assert asking.probe(url).phase is Phase.READY


def test_health_and_model_list_prove_nothing():
    """Case 3."""
    answers: Answers = {
        "/health": (200, {}),
        "/health_generate": (200, {}),
        "/v1/models": (200, {"data": [{"id": "m"}]}),
        "/model_info": (200, {"is_generation": True}),
        "/generate": (503, {}),
    }
    with serving(answers) as url:
        assert dialect().probe(url).phase is Phase.UNREADY


def test_a_few_generated_tokens_are_ready_and_the_request_states_its_sampling():
    """Case 27."""
    asked: list[Any] = []

    def generate(body: Any) -> tuple[int, Any]:
        asked.append(body)
        return 200, {"text": " a + b", "meta_info": {"completion_tokens": 8}}

    with serving({"/generate": generate}) as url:
        probe = dialect().probe(url)

    assert probe.phase is Phase.READY
    assert asked[0]["sampling_params"]["temperature"] == 0.0
    assert asked[0]["sampling_params"]["max_new_tokens"] == 8


def test_flags_are_read_under_the_new_and_the_old_name_flat_and_without_secrets():
    body: dict[str, Any] = {
        **REPORTED,
        "api_key": "s3cret",
        "internal_states": [{}],
        "version": "0.5",
        "kv_events": {"a": 1},
    }
    for path in ("/server_info", "/get_server_info"):
        with serving({path: (200, body)}) as url:
            flags = dialect().fetch_effective_flags(url, {})

        assert flags == {**REPORTED, "version": "0.5"}


def test_what_only_a_variable_carries_is_read_from_the_processs_environment():
    reported = {name: value for name, value in REPORTED.items() if name != "topk"}
    with serving({"/server_info": (200, reported)}) as url:
        flags = dialect().fetch_effective_flags(url, {"SGLANG_DDTREE_MAX_TOPK": "5"})

    assert flags["topk"] == 5
    assert dialect().find_mismatches(TREE, flags) == ("topk is 5, asked for 4",)


@pytest.mark.parametrize("answer", [(500, {}), (200, b"<html>"), (200, [1])])
def test_unreadable_flags_are_an_error(answer: tuple[int, Any]):
    with serving({"/server_info": answer}) as url, pytest.raises(MeasurementError):
        dialect().fetch_effective_flags(url, {})


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        ({}, 0),
        ({"speculative_ddtree_budget": 12}, 1),
        ({"speculative_draft_window_size": None}, 1),
        ({"speculative_algorithm": None, "speculative_ddtree_budget": None}, 2),
        ({"speculative_ddtree_budget": True}, 1),
        ({"something_else": 3}, 0),
    ],
)
def test_each_flag_that_is_not_as_asked_is_one_sentence(change: dict[str, Any], sentences: int):
    """Case 34."""
    assert len(dialect().find_mismatches(TREE, {**REPORTED, **change})) == sentences


def test_a_value_that_the_server_keeps_to_itself_is_a_mismatch():
    assert len(dialect().find_mismatches(TREE, {})) == len(REPORTED)


def test_plain_decoding_must_report_no_speculation():
    assert dialect().find_mismatches(PLAIN, {"speculative_algorithm": None}) == ()
    assert dialect().find_mismatches(PLAIN, REPORTED) != ()


@pytest.mark.parametrize(
    ("configuration", "accept_length", "is_suspicious"),
    [(TREE, 1.05, True), (TREE, 2.7, False), (TREE, None, False), (PLAIN, 1.0, False)],
)
def test_hardly_any_acceptance_is_suspicious_where_there_is_speculation(
    configuration: Any, accept_length: float | None, is_suspicious: bool
):
    assert (dialect().find_suspicion(configuration, accept_length) is not None) is is_suspicious


def test_requests_are_counted_by_the_load_report():
    with serving({"/get_load": (200, [{"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 1}])}) as url:
        assert dialect().count_requests(url) == 3


def test_requests_are_counted_by_metrics_that_move():
    answers: dict[str, Any] = {"/metrics": (200, b"sglang:num_running_reqs 2\nsglang:generation_tokens_total 1")}
    pauses: list[float] = []

    def go_on(seconds: float) -> None:
        pauses.append(seconds)
        answers["/metrics"] = (200, b"sglang:num_running_reqs 2\nsglang:generation_tokens_total 9")

    with serving(answers) as url:
        counting = SglangDialect(SPACE, ServerSettings(), go_on)

        assert counting.count_requests(url) == 2
        assert pauses == [2.0]


def test_a_server_that_does_not_say_what_it_works_on_is_unknown():
    with serving({}) as url:
        assert dialect().count_requests(url) is None
    assert dialect().count_requests(f"http://127.0.0.1:{free_port()}") is None
