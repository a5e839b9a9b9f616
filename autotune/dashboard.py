"""A study as optuna-dashboard shows it: read-only, with our own notes, front and files laid over what Optuna stored.

Nothing is written to the study: a click in a browser must not be able to change or delete what a night has measured,
and a running tuner is not disturbed. What the dashboard gets wrong is put right on the way: it does not know named
constraints, so an infeasible trial would be in its Pareto set, and it would take pass@1 as a third axis of its front.
"""

from __future__ import annotations

import copy
import io
import json
import threading
import time
import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, BinaryIO, NoReturn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard import save_note, save_plotly_graph_object, wsgi
from optuna_dashboard._note import note_str_key_prefix, note_ver_key
from optuna_dashboard._serializer import serialize_frozen_trial

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_READ_ONLY = "the dashboard only reads the study"

MAX_AGE_S = 2.0
"""How old the overlay may be when a browser asks."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file that the dashboard offers: made when asked for, so that it is never out of date.

    Attributes:
        name: shown to the user.
        mimetype: what it is.
        read: returns its bytes.
    """

    name: str
    mimetype: str
    read: Callable[[], bytes]

    @property
    def identity(self) -> str:
        """The dashboard's id of this file, stable from start to start."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"autotune:{self.name}"))


@dataclass(frozen=True, slots=True)
class ShownTrial:
    """What the dashboard shows of one trial beside its parameters and values.

    Attributes:
        note: Markdown.
        attributes: name -> value, replacing the stored attributes, which are long records.
        is_infeasible: shown as failed, so that it cannot be in the Pareto set.
        files: logs and records.
    """

    note: str
    attributes: Mapping[str, str | int | float]
    is_infeasible: bool = False
    files: Sequence[ShownFile] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the dashboard shows of a study beside what Optuna stored.

    Attributes:
        note: Markdown.
        figure: a plotly figure, the front; ``None`` while there is none.
        trials: by number.
        files: the report.
        front: numbers of the trials that are marked as the best.
    """

    note: str
    figure: Any
    trials: Mapping[int, ShownTrial] = field(default_factory=dict)
    files: Sequence[ShownFile] = ()
    front: frozenset[int] = frozenset()


class OverlaidStorage(BaseStorage):
    """An Optuna storage that shows one study of another storage, with an overlay, and refuses every change."""

    def __init__(
        self, inner: BaseStorage, study_name: str, overlay: Callable[[], Shown], clock: Callable[[], float]
    ) -> None:
        self._inner = inner
        self._study_id = inner.get_study_id_from_name(study_name)
        self._make_overlay = overlay
        self._clock = clock
        self._lock = threading.Lock()
        self._made_at: float | None = None
        self._shown = Shown("", None)
        self._attributes: dict[str, Any] = {}

    @property
    def study_id(self) -> int:
        """Optuna's id of the study."""
        return self._study_id

    def shown(self) -> Shown:
        """Return the overlay, made anew when it is too old."""
        with self._lock:
            now = self._clock()
            if self._made_at is None or now - self._made_at > MAX_AGE_S:
                self._shown = self._make_overlay()
                self._attributes = self._write_attributes(self._shown)
                self._made_at = now
            return self._shown

    def _write_attributes(self, shown: Shown) -> dict[str, Any]:
        """Let the dashboard's own functions write the overlay into an empty study, and take what they wrote."""
        storage = InMemoryStorage()
        name = "overlay"
        storage.create_new_study(self._inner.get_study_directions(self._study_id), name)
        study = optuna.load_study(study_name=name, storage=storage)
        save_note(study, shown.note)
        if shown.figure is not None:
            save_plotly_graph_object(study, shown.figure, graph_object_id="front")
        attributes: dict[str, Any] = {
            **self._inner.get_study_system_attrs(self._study_id),
            **storage.get_study_system_attrs(study._study_id),  # noqa: SLF001
        }
        for number, trial in shown.trials.items():
            trial_id = self._inner.get_trial_id_from_study_id_trial_number(self._study_id, number)
            # save_note wants a live trial, which ended ones are not.
            attributes[note_ver_key(trial_id)] = 1
            attributes[f"{note_str_key_prefix(trial_id)}0"] = trial.note
        attributes |= {f"artifacts:{item.identity}": _describe(item) for item in shown.files}
        return attributes

    def _lay_over(self, trial: FrozenTrial) -> FrozenTrial:
        ours = self.shown().trials.get(trial.number)
        if ours is None:
            return trial
        result = copy.copy(trial)
        result.user_attrs = dict(ours.attributes)
        result.system_attrs = {f"artifacts:{item.identity}": _describe(item) for item in ours.files}
        if ours.is_infeasible:
            result.values = None
            result.state = TrialState.FAIL
        return result

    def get_all_studies(self) -> list[FrozenStudy]:
        """Return the one study that is shown."""
        self.shown()
        found = next(study for study in self._inner.get_all_studies() if study._study_id == self._study_id)  # noqa: SLF001
        found.user_attrs = {}
        found.system_attrs = dict(self._attributes)
        return [found]

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the study's id."""
        return self._inner.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the study's name."""
        return self._inner.get_study_name_from_id(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the study's directions."""
        return self._inner.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing: what is stored there is for us, not for people."""
        return {}

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:  # noqa: ARG002
        """Return the overlay."""
        self.shown()
        return dict(self._attributes)

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return one trial with the overlay."""
        return self._lay_over(self._inner.get_trial(trial_id))

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return all trials with the overlay."""
        trials = [self._lay_over(trial) for trial in self._inner.get_all_trials(study_id, deepcopy=deepcopy)]
        return [trial for trial in trials if states is None or trial.state in states]

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Return a trial's id."""
        return self._inner.get_trial_id_from_study_id_trial_number(study_id, trial_number)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse every change, whatever asks for it."""
        raise PermissionError(_READ_ONLY)

    create_new_study = delete_study = set_study_user_attr = set_study_system_attr = _refuse
    create_new_trial = set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse


class ShownFiles:
    """An artifact store that holds the files of the overlay."""

    def __init__(self, storage: OverlaidStorage) -> None:
        self._storage = storage

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """Open one file by the dashboard's id."""
        shown = self._storage.shown()
        everything = [*shown.files, *(item for trial in shown.trials.values() for item in trial.files)]
        return io.BytesIO(next(item.read() for item in everything if item.identity == artifact_id))

    def write(self, artifact_id: str, content_body: BinaryIO) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise PermissionError(_READ_ONLY)

    def remove(self, artifact_id: str) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise PermissionError(_READ_ONLY)


def build_app(
    url: str, study_name: str, overlay: Callable[[], Shown], clock: Callable[[], float] = time.monotonic
) -> Wsgi:
    """Return the dashboard of one study as a WSGI application that only reads."""
    storage = OverlaidStorage(_open_storage(url), study_name, overlay, clock)
    return guard(mark_our_front(wsgi(storage, artifact_store=ShownFiles(storage)), storage))


def find_page(url: str, study_name: str) -> str:
    """Return the path of the study's own page."""
    return f"/dashboard/studies/{_open_storage(url).get_study_id_from_name(study_name)}"


def _open_storage(url: str) -> RDBStorage:
    return RDBStorage(url.replace("{", "{{").replace("}", "}}"), skip_table_creation=True)


def mark_our_front(app: Wsgi, storage: OverlaidStorage) -> Wsgi:
    """Replace the best trials in the answer that describes the study by those of our front."""
    path = f"/api/studies/{storage.study_id}"

    def marked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != path or environ.get("REQUEST_METHOD") != "GET":
            return app(environ, start_response)
        started: list[tuple[str, list[tuple[str, str]]]] = []
        chunks = app(environ, lambda status, headers, *_: started.append((status, headers)))
        body = b"".join(chunks)
        status, headers = started[-1]
        if status.startswith("200"):
            study = json.loads(body)
            front = storage.shown().front
            attributes = storage.get_study_system_attrs(storage.study_id)
            study["best_trials"] = [
                serialize_frozen_trial(storage.study_id, trial, attributes)
                for trial in storage.get_all_trials(storage.study_id)
                if trial.number in front
            ]
            body = json.dumps(study).encode()
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        return [body]

    return marked


def guard(app: Wsgi) -> Wsgi:
    """Let only reading requests through that were addressed to this machine by a loopback name.

    A page from elsewhere can make a browser send requests to loopback under a name of its own; such names are refused.
    """

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "").rpartition(":")[0] or environ.get("HTTP_HOST", "")
        if host not in {"127.0.0.1", "localhost", "[::1]"}:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"this dashboard answers to 127.0.0.1 and localhost only\n"]
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            start_response("405 Method Not Allowed", [("Content-Type", "application/json"), ("Allow", "GET, HEAD")])
            return [b'{"reason": "this dashboard only reads"}']
        return app(environ, start_response)

    return guarded


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing for each request."""


def make_loopback_server(app: Wsgi, port: int) -> WSGIServer:
    """Bind to this machine's loopback address only; port 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    return make_server("127.0.0.1", port, app, server_class=_Server, handler_class=_Handler)


def file_of(path: Path, name: str, mimetype: str = "text/plain; charset=utf-8") -> ShownFile:
    """Offer a file on disk; one that has gone reads as empty."""
    return ShownFile(name, mimetype, lambda: path.read_bytes() if path.is_file() else b"")


def _describe(item: ShownFile) -> str:
    return json.dumps(
        {"artifact_id": item.identity, "filename": item.name, "mimetype": item.mimetype, "encoding": None}
    )
