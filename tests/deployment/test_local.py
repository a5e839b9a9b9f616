from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.deployment.found_server import end_found
from autotune.deployment.host_record import load_record
from autotune.deployment.local import LocalDeployment
from autotune.deployment.process import Identity, find_listener, find_tree, identify, read_command, read_environment
from autotune.errors import HostBusyError, HostError, PortTakenError, RestoreError
from autotune.servers.base import LaunchSpec
from tests.deployment.processes import free_port, running, small_server, wait_for_port, wait_until

ROOT = Path(__file__).parents[2]


def deploy(folder: Path, port: int, *, baseline: LaunchSpec | None = None, patience_s: float = 5) -> LocalDeployment:
    return LocalDeployment(
        baseline=baseline or small_server(port, "--budget", "1"),
        host="127.0.0.1",
        port=port,
        folder=folder,
        stop_timeout_s=patience_s,
        orphan_patience_s=0.2,
    )


@pytest.fixture
def port() -> Iterator[int]:
    """A free port; whatever server listens on it at the end is ended."""
    port = free_port()
    yield port
    listener = find_listener("127.0.0.1", port)
    if listener is not None and listener.pid is not None and listener.pid != os.getpid():
        end_found(listener.pid, 5)


def run_dying_tuner(port: int, folder: Path) -> tuple[subprocess.Popen[str], list[Identity]]:
    """Start the tuner to be killed; return it and the guard, the server and its descendants."""
    command = [sys.executable, "-m", "tests.deployment.dying_tuner", str(port), str(folder)]
    tuner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert tuner.stdout is not None
    identities = [identify(int(pid)) for pid in tuner.stdout.readline().split()]
    tuner.stdout.close()
    assert len(identities) >= 4
    return tuner, [identity for identity in identities if identity is not None]


def test_a_killed_tuner_takes_its_server_and_all_descendants_with_it(tmp_path: Path, port: int):
    """Case 36."""
    tuner, family = run_dying_tuner(port, tmp_path)
    tuner.kill()
    tuner.wait()

    wait_until(lambda: not any(item.is_alive() for item in family))

    assert find_listener("127.0.0.1", port) is None


def test_the_next_tuner_restores_what_a_killed_one_had_stopped(tmp_path: Path, port: int):
    """Case 36, case 70: the host does not keep the flags of a trial."""
    with running(small_server(port, "--budget", "1"), tmp_path, listens=port) as found:
        tuner, family = run_dying_tuner(port, tmp_path / "study")
        tuner.kill()
        tuner.wait()
        assert found.wait() is not None
        with deploy(tmp_path / "study", port) as deployment:
            left = [item for item in family if item.is_alive()]
            between = deployment.observe().occupant

        again = wait_for_port(port)

        assert left == []
        assert between is Occupant.NOBODY
        assert read_command(again) == small_server(port, "--budget", "1").command
        assert not (tmp_path / "study" / "host.json").exists()


def test_descendants_die_even_when_the_guard_is_killed_with_the_tuner(tmp_path: Path, port: int):
    tuner, family = run_dying_tuner(port, tmp_path)
    tuner.send_signal(signal.SIGSTOP)
    os.kill(family[0].pid, signal.SIGKILL)
    tuner.kill()
    tuner.wait()
    with deploy(tmp_path, port):
        left = [item for item in family if item.is_alive()]

    assert left == []


def test_stopping_ends_descendants_that_ignore_sigterm(tmp_path: Path, port: int):
    with deploy(tmp_path, port, patience_s=0.3) as deployment:
        pid = deployment.start(small_server(port, "--stubborn", "--descendants"), tmp_path / "boot.log")
        wait_until(lambda: len(find_tree(pid)) >= 3)
        family = find_tree(pid)
        deployment.stop()

        assert not any(item.is_alive() for item in family)


def test_a_crash_is_seen_with_its_code_and_its_words(tmp_path: Path, port: int):
    with deploy(tmp_path, port) as deployment:
        deployment.start(small_server(port, "--exit-code", "3"), tmp_path / "boot.log")
        wait_until(lambda: deployment.poll() is not None)

        assert deployment.poll() == 3
        assert deployment.read_log() == ("the end is near",)
        assert deployment.observe().occupant is Occupant.NOBODY


def test_a_program_that_does_not_exist_is_the_hosts_fault(tmp_path: Path, port: int):
    with deploy(tmp_path, port) as deployment, pytest.raises(HostError, match="No such file"):
        deployment.start(LaunchSpec(("/no/such/program",), {}), tmp_path / "boot.log")


def test_the_server_gets_the_variables_of_its_launch_only(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INHERITED", "yes")
    monkeypatch.setenv("TOPK", "9")
    with deploy(tmp_path, port) as deployment:
        deployment.start(small_server(port, environment={"TOPK": None, "BUDGET": "3"}), tmp_path / "boot.log")
        environment = deployment.read_environment()

    assert environment["INHERITED"] == "yes"
    assert environment["BUDGET"] == "3"
    assert "TOPK" not in environment


def test_a_found_server_runs_again_with_command_environment_folder_and_output(tmp_path: Path, port: int):
    """Case 70."""
    launch = small_server(port, "--budget", "1", environment={"SECRET": "s3cret \n value"})
    with running(launch, tmp_path, listens=port) as found:
        before = read_environment(found.pid)
        with deploy(tmp_path / "study", port, baseline=launch) as deployment:
            deployment.stop()
            record = tmp_path / "study" / "host.json"
            mode = record.stat().st_mode & 0o777
        again = wait_for_port(port)

        assert mode == 0o600
        assert again != found.pid
        assert read_command(again) == launch.command
        assert read_environment(again) == before
        assert Path(f"/proc/{again}/cwd").readlink() == tmp_path
        assert (tmp_path / "found.log").read_text().count("listening") == 2
        assert os.getsid(again) == again
        assert not record.exists()


def test_a_found_server_that_ignores_sigterm_is_killed_after_the_patience(tmp_path: Path, port: int):
    launch = small_server(port, "--stubborn", "--descendants")
    with (
        running(launch, tmp_path, listens=port) as found,
        deploy(tmp_path / "study", port, baseline=launch, patience_s=0.3) as deployment,
    ):
        wait_until(lambda: len(find_tree(found.pid)) >= 3)
        family = find_tree(found.pid)
        deployment.stop()

        assert not any(item.is_alive() for item in family)
        deployment._record = None


def test_a_baseline_that_still_loads_is_recognised(tmp_path: Path, port: int):
    launch = small_server(port, "--never-listen")
    with running(launch, tmp_path) as found:
        wait_until(lambda: read_command(found.pid) == launch.command)
        observation = deploy(tmp_path / "study", port, baseline=launch).observe()

    assert observation.occupant is Occupant.BASELINE
    assert observation.pid == found.pid
    assert not observation.is_listening


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network")
def test_a_server_that_loads_in_a_network_of_its_own_is_another_ones(tmp_path: Path, port: int):
    launch = small_server(port, "--never-listen")
    apart = LaunchSpec(("unshare", "--net", *launch.command), launch.environment)
    with running(apart, tmp_path) as found:
        wait_until(lambda: read_command(found.pid) == launch.command)
        observation = deploy(tmp_path / "study", port, baseline=launch).observe()

    assert observation.occupant is Occupant.NOBODY


def test_a_refusal_names_process_command_and_difference(tmp_path: Path, port: int):
    with (
        running(small_server(port, "--budget", "7"), tmp_path, listens=port) as found,
        deploy(tmp_path / "study", port) as deployment,
    ):
        with pytest.raises(PortTakenError) as refusal:
            deployment.stop()

        assert f"process {found.pid}" in str(refusal.value)
        assert "--budget is 7, not 1" in str(refusal.value)
        assert found.poll() is None


def test_a_port_taken_during_the_study_is_a_restore_error_that_keeps_the_record(tmp_path: Path, port: int):
    with running(small_server(port, "--budget", "1"), tmp_path, listens=port):
        deployment = deploy(tmp_path / "study", port).__enter__()
        deployment.stop()
        with running(small_server(port, "--budget", "7"), tmp_path, listens=port):
            with pytest.raises(RestoreError, match="took the port"):
                deployment.__exit__(None, None, None)
            record = load_record(tmp_path / "study" / "host.json")
        with deploy(tmp_path / "study", port):
            pass
        again = wait_for_port(port)

    assert record is not None
    assert record.found is not None
    assert read_command(again) == small_server(port, "--budget", "1").command


def test_a_second_tuner_is_refused_while_the_first_lives(tmp_path: Path, port: int):
    """Case 36."""
    with deploy(tmp_path, port), pytest.raises(HostBusyError, match=f"process {os.getpid()}"):
        deploy(tmp_path / "other", port).__enter__()
    with deploy(tmp_path, port):
        pass


def test_a_broken_record_is_not_guessed_at(tmp_path: Path, port: int):
    (tmp_path / "host.json").write_text(json.dumps({"version": 1, "machine": "m"}))

    with pytest.raises(HostError, match="cannot be read"):
        deploy(tmp_path, port).__enter__()
