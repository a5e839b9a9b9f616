"""The dashboard shows our view of a study and cannot change it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from optuna.storages import RDBStorage
from plotly import graph_objects

from autotune.cli.dashboard import show_study
from autotune.dashboard import OverlaidStorage, Shown, ShownTrial, build_app, find_page, guard, make_loopback_server
from autotune.storage import sqlite_url
from autotune.study_view import load_study
from tests.stored_study import EVIL, SECRET, write_study


class Browser:
    """Sends requests to a WSGI application."""

    def __init__(self, app) -> None:
        self.app = app
        self.status = ""
        self.headers: dict[str, str] = {}

    def ask(self, path: str, method: str = "GET", host: str = "127.0.0.1:8080", body: bytes = b"") -> bytes:
        path, _, query = path.partition("?")

        def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> None:
            self.status, self.headers = status, dict(headers)

        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "HTTP_HOST": host,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8080",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": "application/json",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.url_scheme": "http",
        }
        answer = self.app(environ, start_response)
        try:
            return b"".join(answer)
        finally:
            if hasattr(answer, "close"):
                answer.close()

    def ask_json(self, path: str) -> Any:
        answer = self.ask(path)
        assert self.status.startswith("200"), answer
        return json.loads(answer)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("studies") / "sample"
    write_study(directory)
    (directory / "trials" / "0003").mkdir(parents=True)
    (directory / "trials" / "0003" / "server.log").write_text("the log of trial 3\n", encoding="utf-8")
    return directory


@pytest.fixture
def browser(directory):
    url = sqlite_url(directory / "study.db")
    return Browser(build_app(url, "sample", lambda: show_study(load_study(directory), directory)))


def test_the_study_is_listed_with_the_names_of_its_objectives(browser):
    studies = browser.ask_json("/api/studies")["study_summaries"]
    study = browser.ask_json("/api/studies/1")

    assert [item["study_name"] for item in studies] == ["sample"]
    assert study["objective_names"] == ["tokens_per_s_c1", "tokens_per_s_c32", "pass_at_1"]


def test_the_note_of_the_study_recommends_a_trial(browser):
    body = browser.ask_json("/api/studies/1")["note"]["body"]

    assert body.startswith("**Recommended: trial 3** (not proven), `budget=8 topk=4 window=none`")
    assert "On the front: 4, 3." in body


def test_untrusted_text_of_a_note_is_escaped(browser):
    trials = browser.ask_json("/api/studies/1")["trials"]

    body = trials[6]["note"]["body"]
    assert "out of memory while loading" in body
    assert "<script>" not in body
    assert "\x1b" not in body
    assert r"\[link\]\(javascript:alert\(1\)\)" in body
    assert EVIL not in json.dumps(trials)


def test_our_front_is_a_custom_graph(browser):
    graphs = browser.ask_json("/api/studies/1")["plotly_graph_objects"]

    assert [graph["id"] for graph in graphs] == ["front"]
    traces = {trace.get("name"): trace for trace in json.loads(graphs[0]["graph_object"])["data"]}
    assert traces["on the front"]["text"] == ["3 recommended", "4"]
    assert traces["baseline"]["text"] == ["0"]


def test_an_infeasible_trial_is_shown_as_failed_and_never_among_the_best(browser):
    study = browser.ask_json("/api/studies/1")

    assert study["trials"][6]["state"] == "Fail"
    assert 6 not in {trial["number"] for trial in study["best_trials"]}


def test_the_best_trials_are_those_of_our_front(browser):
    study = browser.ask_json("/api/studies/1")

    assert study["best_trials"] == [study["trials"][3], study["trials"][4]]


def test_a_study_has_a_page_of_its_own(browser, directory):
    page = find_page(sqlite_url(directory / "study.db"), "sample")

    assert page == "/dashboard/studies/1"
    browser.ask(page)
    assert browser.status.startswith("200")


def test_attributes_are_a_few_words_and_hold_no_record_and_no_secret(browser):
    study = browser.ask_json("/api/studies/1")

    attributes = {item["key"]: item["value"] for item in study["trials"][3]["user_attrs"]}
    assert attributes == {
        "state": "complete",
        "kind": "listed",
        "arm": "tree",
        "front": "yes",
        "gain C=1": "+8.9%",
        "gain C=32": "+20.6%",
        "accept length C=1": "3.0",
        "accept length C=32": "3.0",
    }
    assert study["user_attrs"] == []
    assert SECRET not in json.dumps(study)


def test_the_report_and_the_logs_are_artifacts(browser):
    study = browser.ask_json("/api/studies/1")
    report, log = study["artifacts"][0], study["trials"][3]["artifacts"][0]

    page = browser.ask(f"/artifacts/1/{report['artifact_id']}")
    assert report["filename"] == "report.html"
    assert page.startswith(b"<!doctype html>")
    assert log["filename"] == "0003/server.log"
    assert browser.ask(f"/artifacts/1/{study['trials'][3]['trial_id']}/{log['artifact_id']}") == b"the log of trial 3\n"


def test_the_table_of_trials_can_be_downloaded(browser):
    lines = browser.ask("/csv/1").decode().splitlines()

    assert len(lines) == 10
    assert lines[4].startswith("3,COMPLETE,110.0,960.0,")


@pytest.mark.parametrize("plot", ["contour", "timeline", "pareto_front"])
def test_the_plots_of_the_dashboard_work(browser, plot):
    browser.ask(f"/api/studies/1/plot/{plot}")

    assert browser.status.startswith("200")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/studies/1"),
        ("POST", "/api/studies"),
        ("POST", "/api/studies/1/rename"),
        ("PUT", "/api/studies/1/note"),
        ("POST", "/api/trials/1/tell"),
        ("POST", "/api/artifacts/1"),
        ("PATCH", "/"),
    ],
)
def test_nothing_can_be_changed(browser, directory, method, path):
    before = (directory / "study.db").read_bytes()

    browser.ask(path, method, body=b"{}")

    assert browser.status.startswith("405")
    assert (directory / "study.db").read_bytes() == before


def test_the_storage_itself_refuses_too(directory):
    storage = OverlaidStorage(
        RDBStorage(sqlite_url(directory / "study.db")), "sample", lambda: Shown("", None), lambda: 0
    )

    for change in (
        lambda: storage.delete_study(1),
        lambda: storage.set_study_system_attr(1, "a", 1),
        lambda: storage.set_trial_user_attr(1, "a", 1),
        lambda: storage.create_new_trial(1),
    ):
        with pytest.raises(PermissionError, match="only reads"):
            change()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("host", ["evil.example:8080", "evil.example", "127.0.0.1.evil.example", ""])
def test_a_name_of_somebody_else_is_refused(browser, host):
    browser.ask("/api/studies", host=host)

    assert browser.status.startswith("403")


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:8080"])
def test_names_of_this_machine_are_answered(browser, host):
    browser.ask("/api/studies", host=host)

    assert browser.status.startswith("200")


def test_the_overlay_follows_a_study_that_runs(directory):
    made: list[Shown] = []
    now = [0.0]

    def overlay() -> Shown:
        note = f"note {len(made)}"
        made.append(Shown(note, graph_objects.Figure(), {3: ShownTrial(note, {"state": note})}))
        return made[-1]

    browser = Browser(build_app(sqlite_url(directory / "study.db"), "sample", overlay, lambda: now[0]))
    first = browser.ask_json("/api/studies/1")["note"]["body"]
    now[0] = 1.0
    same = browser.ask_json("/api/studies/1")["note"]["body"]
    now[0] = 10.0
    later = browser.ask_json("/api/studies/1")["note"]["body"]

    assert [first, same, later] == ["note 0", "note 0", "note 1"]


def test_the_server_listens_on_loopback_only():
    server = make_loopback_server(guard(lambda *_: []), 0)
    try:
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.server_close()
