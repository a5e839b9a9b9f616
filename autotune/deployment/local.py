"""The server as a process on this machine: whose is the port, start ours under a guard, put back what was found."""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.deployment.base import Deployment, Observation, Occupant, explain_foreign
from autotune.deployment.command_line import find_differences
from autotune.deployment.found_server import describe_found, end_found, run_again, say_by_hand
from autotune.deployment.gpu_activity import GpuSample, GpuTool
from autotune.deployment.guarded_process import DEATH_PATIENCE_S, GuardedProcess, end_marked
from autotune.deployment.host_lock import HostLock
from autotune.deployment.host_record import (
    RECORD_NAME,
    FoundServer,
    HostRecord,
    delete_record,
    load_record,
    read_machine,
    save_record,
)
from autotune.deployment.local_host import LocalHost
from autotune.deployment.process import (
    Identity,
    find_ancestors,
    find_listener,
    identify,
    list_processes,
    read_command,
    read_environment,
    read_parent,
    shares_network,
)
from autotune.errors import HostError, RestoreError
from autotune.servers.base import LaunchSpec

_LOOK_AGAIN_S = 0.05
_PORT_PATIENCE_S = 20.0


class LocalDeployment(Deployment):
    """One server on one port of this machine.

    Args:
        baseline: how the server that the study names is started; only a process that equals it is ever stopped.
        host: address the server listens on.
        port: its port.
        folder: folder of the study; holds ``host.json`` while something is left to restore.
        stop_timeout_s: patience between SIGTERM and SIGKILL.
        orphan_patience_s: the same when this tuner has died.
    """

    def __init__(
        self,
        *,
        baseline: LaunchSpec,
        host: str,
        port: int,
        folder: Path,
        stop_timeout_s: float,
        orphan_patience_s: float = 5.0,
    ) -> None:
        address = f"[{host}]" if ":" in host else host
        self.url = f"http://{address}:{port}"
        self._baseline = baseline
        self._host = host
        self._port = port
        self._folder = folder.absolute()
        self._record_path = self._folder / RECORD_NAME
        self._stop_timeout_s = stop_timeout_s
        self._orphan_patience_s = orphan_patience_s
        self._lock = HostLock(port)
        self._gpus = GpuTool(LocalHost())
        self._record: HostRecord | None = None
        self._child: GuardedProcess | None = None
        self._adopted: Identity | None = None
        self._log: tuple[Path, int] | None = None
        self._is_restore_tried = False

    def __enter__(self) -> Self:
        """Take the host and end what a dead tuner left running; see the base class."""
        self._lock.acquire()
        try:
            self._record = load_record(self._record_path)
            if self._record is not None:
                self._end_leftovers(self._record)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the host and give it back; see the base class."""
        try:
            if self._record is None or not self._is_restore_tried:
                self.restore()
        finally:
            self._lock.release()

    @property
    def was_serving(self) -> bool:
        """True when a server ran before us."""
        if self._record is not None:
            return self._record.found is not None
        return self.observe().occupant is Occupant.BASELINE

    def observe(self) -> Observation:
        """Look at the host without changing anything."""
        listener = find_listener(self._host, self._port)
        child = self._child
        if child is not None and child.poll() is None and (listener is None or listener.pid in child.list_pids()):
            command = read_command(child.pid)
            return Observation(Occupant.OURS, child.pid, command, child.launch, is_listening=listener is not None)
        if listener is None:
            loading = self._find_loading_baseline()
            if loading is None:
                return Observation(Occupant.NOBODY)
            return Observation(Occupant.BASELINE, loading, read_command(loading), self._baseline)
        if listener.pid is None:
            why = f"it belongs to user {listener.user}, whose processes cannot be looked at"
            return Observation(Occupant.FOREIGN, is_listening=True, differences=(why,))
        for pid in find_ancestors(listener.pid):
            if self._is_baseline(pid):
                return Observation(Occupant.BASELINE, pid, read_command(pid), self._baseline, is_listening=True)
        command = read_command(listener.pid)
        differences = find_differences(command, read_environment(listener.pid), self._baseline)
        return Observation(Occupant.FOREIGN, listener.pid, command, is_listening=True, differences=differences)

    def start(self, launch: LaunchSpec, log_path: Path) -> int:
        """Start the server under its guard; see the base class."""
        observation = self.observe()
        self._refuse_foreign(observation)
        if observation.occupant is not Occupant.NOBODY:
            raise HostError(
                f"a server already runs as process {observation.pid}", where=self.url, hint="stop it before a start"
            )
        self._stop_child()
        self._is_restore_tried = False
        log_path.parent.mkdir(parents=True, exist_ok=True)
        marker = uuid.uuid4().hex
        record = replace(self._record or HostRecord(read_machine(), found=None), machine=read_machine(), marker=marker)
        self._remember(record)
        self._child = GuardedProcess(launch, log_path, marker, self._orphan_patience_s)
        self._log = (log_path, 0)
        self._remember(replace(record, guard=self._child.guard_identity))
        return self._child.pid

    def stop(self) -> None:
        """Stop our server or the baseline found; see the base class."""
        self._is_restore_tried = False
        self._stop_child()
        observation = self.observe()
        self._refuse_foreign(observation)
        if observation.occupant is Occupant.BASELINE and observation.pid is not None:
            found = describe_found(observation.pid, self._folder / "baseline.log")
            record = self._record or HostRecord(read_machine(), found=None)
            self._remember(replace(record, found=found))
            end_found(observation.pid, self._stop_timeout_s)
            self._wait_for_port()
            again = self.observe()
            self._refuse_foreign(again)
            if again.occupant is Occupant.BASELINE and again.pid is not None:
                raise HostError(
                    f"something starts the server again as soon as it stops: process {again.pid}, "
                    f"child of process {read_parent(again.pid)}",
                    where=self.url,
                    hint="stop whatever supervises it, so that it stays off while other configurations are tried",
                )
        self._adopted = None

    def poll(self) -> int | None:
        """Return the exit code of the server in use, or ``None`` while it lives."""
        if self._child is not None:
            return self._child.poll()
        if self._adopted is None:
            observation = self.observe()
            if observation.occupant is not Occupant.BASELINE or observation.pid is None:
                return -1
            self._adopted = identify(observation.pid)
        return None if self._adopted is not None and self._adopted.is_alive() else -1

    def read_log(self) -> tuple[str, ...]:
        """Return the log lines of this boot so far."""
        if self._log is None:
            return ()
        path, offset = self._log
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return ()
        return tuple(data.decode("utf-8", errors="replace").splitlines())

    def read_environment(self) -> Mapping[str, str]:
        """Return the variables that the server in use was started with."""
        pid = self._child.pid if self._child is not None else self.observe().pid
        environment = None if pid is None else read_environment(pid)
        return environment or {}

    def sample_gpus(self) -> tuple[GpuSample, ...]:
        """Look at the GPUs of this machine; see the base class."""
        return self._gpus.sample()

    def verify(self, launch: LaunchSpec) -> tuple[str, ...]:
        """Compare the process in use with a launch."""
        pid = self._child.pid if self._child is not None else self.observe().pid
        if pid is None:
            return ("it has no process that can be found",)
        return find_differences(read_command(pid), read_environment(pid), launch)

    def restore(self, check: Callable[[], None] | None = None) -> None:
        """Put the host back as it was found; see the base class."""
        self._is_restore_tried = True
        self._stop_child()
        record = self._record
        if record is None:
            return
        self._end_leftovers(record)
        if record.found is not None and self._run_again(record.found) and check is not None:
            check()
        delete_record(self._record_path)
        self._record = None

    def _run_again(self, found: FoundServer) -> bool:
        """Start the server that was found; return False when it already runs and answers."""
        observation = self.observe()
        if observation.occupant is Occupant.NOBODY:
            output = Path(found.output)
            self._log = (output, output.stat().st_size if output.exists() else 0)
            self._adopted = run_again(found)
            return True
        if observation.occupant is Occupant.BASELINE:
            return not observation.is_listening
        raise RestoreError(
            f"process {observation.pid} ({shlex.join(observation.command)}) took the port meanwhile",
            where=self.url,
            hint=f"stop it and repeat the command, or {say_by_hand(found)}",
        )

    def _is_baseline(self, pid: int) -> bool:
        command = read_command(pid)
        return bool(command) and not find_differences(command, read_environment(pid), self._baseline)

    def _find_loading_baseline(self) -> int | None:
        """Return a process that equals the baseline but does not listen yet."""
        own = set() if self._child is None else self._child.list_pids()
        matches = [
            pid
            for pid in list_processes()
            if pid not in own and self._is_baseline(pid) and identify(pid) is not None and shares_network(pid)
        ]
        return next((pid for pid in matches if read_parent(pid) not in matches), None)

    def _refuse_foreign(self, observation: Observation) -> None:
        if observation.occupant is Occupant.FOREIGN:
            raise explain_foreign(observation, self.url)

    def _remember(self, record: HostRecord) -> None:
        save_record(self._record_path, record)
        self._record = record

    def _stop_child(self) -> None:
        """End our server if there is one; returns when none of its processes lives and the port is free."""
        if self._child is not None:
            self._child.stop(self._stop_timeout_s)
            self._child = None
            self._wait_for_port()

    def _end_leftovers(self, record: HostRecord) -> None:
        """End what a dead tuner started, as far as its guard has not done so."""
        if record.machine != read_machine():
            return
        if record.guard is not None:
            deadline = time.monotonic() + self._orphan_patience_s + DEATH_PATIENCE_S
            while record.guard.is_alive() and time.monotonic() < deadline:
                time.sleep(_LOOK_AGAIN_S)
        if record.marker is not None:
            end_marked(record.marker)

    def _wait_for_port(self) -> None:
        """Wait until the server that was just ended is off the port; another owner is found by observing."""
        deadline = time.monotonic() + _PORT_PATIENCE_S
        while (listener := find_listener(self._host, self._port)) is not None:
            if listener.pid is not None and identify(listener.pid) is not None:
                return
            if time.monotonic() > deadline:
                raise HostError(
                    f"the port is still taken after {_PORT_PATIENCE_S:.0f} s",
                    where=self.url,
                    hint="look at it with ss -ltnp",
                )
            time.sleep(_LOOK_AGAIN_S)
