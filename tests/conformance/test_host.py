"""What every host promises, checked on this machine and over a real SSH connection."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.deployment.host import OUTPUT_LIMIT_BYTES, Host
from autotune.deployment.host_files import make_folder, read_file, remove_file, write_file
from autotune.deployment.local_host import LocalHost
from autotune.deployment.ssh import SshHost
from autotune.errors import RemoteTimeout
from tests.deployment.loopback_sshd import LoopbackSshd

MIB = 2**20

BAD_WORDS = [
    "$(touch /tmp/x)",
    "`touch /tmp/x`",
    "two  words ",
    '{"a": "b\'c"}',
    "-n",
    "--",
    "",
    "line\nand line\n",
    "\t\\\\ \\n",
    "größer 選 🙂",
    "*",
    "~",
    "$HOME",
    "a;b|c&d>e<f",
    "!x",
    "'",
    '"',
    "%s",
    "#",
]


@pytest.fixture(scope="module", params=["this machine", "ssh"])
def host(request, tmp_path_factory) -> Iterator[Host]:
    if request.param == "this machine":
        with LocalHost() as local:
            yield local
        return
    with LoopbackSshd(tmp_path_factory.mktemp("sshd")) as server, SshHost("loopback", config=str(server.config)) as ssh:
        yield ssh


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def words_seen(host: Host, words: list[str]) -> list[str]:
    output = host.run(["printf", r"%s\0", *words])
    assert (output.exit_code, output.stderr, output.is_truncated) == (0, b"", False)
    return output.stdout.decode("utf-8", errors="surrogateescape").split("\0")[:-1]


def test_every_word_reaches_the_program_as_it_is(host):
    """case 50"""
    Path("/tmp/x").unlink(missing_ok=True)
    assert words_seen(host, BAD_WORDS) == BAD_WORDS
    assert not Path("/tmp/x").exists()


def test_bytes_that_are_no_text_reach_the_program_too(host):
    assert words_seen(host, ["\udcff\udc80"]) == ["\udcff\udc80"]


@pytest.mark.parametrize("command", [["echo", "a\0b"], ["a\0b"]])
def test_a_word_that_no_program_can_be_given_is_refused(host, command):
    with pytest.raises(ValueError, match=r"(?i)nul"):
        host.run(command)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=5)
)
def test_any_words_reach_the_program_as_they_are(host, words):
    """case 50"""
    assert words == words_seen(host, words)


def test_two_full_streams_are_read_side_by_side(host):
    """case 46"""
    script = (
        "i=0; while [ $i -lt 80 ]; do head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2; i=$((i+1)); done; exit 3"
    )
    started = time.monotonic()
    output = host.run(["sh", "-c", script])
    assert (
        output.exit_code,
        len(output.stdout),
        len(output.stderr),
        output.is_truncated,
    ) == (3, 5 * MIB, 5 * MIB, False)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(("redirect", "expected"), [("", (5 * MIB, 0)), (">&2", (0, 5 * MIB))])
def test_one_full_stream_is_read_while_the_other_is_silent(host, redirect, expected):
    """case 46"""
    output = host.run(["sh", "-c", f"head -c {5 * MIB} /dev/zero {redirect}; exit 3"])
    assert (3, *expected) == (output.exit_code, len(output.stdout), len(output.stderr))


def test_output_beyond_the_limit_is_dropped_and_said_to_be(host):
    """case 46"""
    output = host.run(["sh", "-c", f"head -c {OUTPUT_LIMIT_BYTES + 1} /dev/zero; echo end >&2; exit 4"])
    assert output.is_truncated
    assert (output.exit_code, len(output.stdout), output.stderr) == (4, OUTPUT_LIMIT_BYTES, b"end\n")


def test_long_input_arrives_whole(host):
    data = bytes(range(256)) * (12 * 1024)
    assert data == host.run(["cat"], stdin=data).stdout


def test_a_program_that_does_not_read_its_input_ends_all_the_same(host):
    output = host.run(["sh", "-c", "exec <&-; echo done; exit 5"], stdin=b"x" * 3 * MIB)
    assert (output.exit_code, output.stdout) == (5, b"done\n")


def test_without_input_a_program_reads_the_end_of_file(host):
    assert host.run(["cat"], timeout_s=10).stdout == b""


def test_input_can_be_opened_by_name(host, tmp_path):
    output = host.run(["install", "-m", "600", "/dev/stdin", str(tmp_path / "x")], stdin=b"abc")
    assert (output.exit_code, (tmp_path / "x").read_bytes()) == (0, b"abc")


@pytest.mark.parametrize("stdin", [b"", b"x" * MIB])
def test_the_deadline_ends_the_command_and_all_its_descendants(host, tmp_path, stdin):
    script = (
        'trap "" TERM; sleep 300 & echo $! > "$1/child"; setsid sh -c \'echo $$ > "$1/session"; sleep 300\' x "$1" & '
        'echo $$ > "$1/self"; sleep 300; sleep 300'
    )
    started = time.monotonic()
    with pytest.raises(RemoteTimeout, match=r"did not end within 1\.2 s and was ended$"):
        host.run(["sh", "-c", script, "x", str(tmp_path)], stdin=stdin, timeout_s=1.2)
    assert 1.2 <= time.monotonic() - started < 30
    pids = [int((tmp_path / name).read_text()) for name in ("self", "child", "session")]
    assert [pid for pid in pids if alive(pid)] == []


class Interrupted(BaseException):
    """What a handler of a signal raises."""


def test_a_command_that_is_interrupted_here_is_ended_there(host, tmp_path):
    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.2)
        with pytest.raises(Interrupted):
            host.run(["sh", "-c", 'echo $$ > "$1/pid"; sleep 300; :', "x", str(tmp_path)], timeout_s=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert host.run(["true"]).exit_code == 0


def test_output_is_no_reason_to_miss_the_deadline(host):
    with pytest.raises(RemoteTimeout):
        host.run(["sh", "-c", "while :; do echo x; done"], timeout_s=0.5)


def test_a_command_that_ends_in_time_leaves_what_it_started_alone(host, tmp_path):
    started = time.monotonic()
    output = host.run(["sh", "-c", 'sleep 20 & echo $! > "$1/pid"; echo said', "x", str(tmp_path)], timeout_s=10)
    assert (output.exit_code, output.stdout) == (0, b"said\n")
    assert time.monotonic() - started < 5
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    host.run(["kill", str(pid)])


@pytest.mark.parametrize("stdin", [b"", b"x"])
def test_an_end_by_a_signal_is_128_and_its_number(host, stdin):
    assert host.run(["sh", "-c", "kill -9 $$"], stdin=stdin).exit_code == 128 + 9
    assert host.run(["sh", "-c", "kill $$"], stdin=stdin).exit_code == 128 + 15


def test_any_exit_code_is_an_answer(host):
    assert [host.run(["sh", "-c", f"exit {n}"]).exit_code for n in (0, 1, 124, 137, 255)] == [0, 1, 124, 137, 255]


def test_a_program_that_is_not_there_is_127_and_named(host):
    output = host.run(["no-such-program"])
    assert output.exit_code == 127
    assert "no-such-program" in output.complaint


def test_a_file_that_cannot_be_executed_is_126(host):
    assert host.run(["/etc/passwd"]).exit_code == 126


def test_messages_are_in_english_and_there_is_no_terminal(host):
    output = host.run(["sh", "-c", 'echo "$LC_ALL$SYSTEMD_COLORS"; test -t 0 || test -t 1 || test -t 2 || echo none'])
    assert output.stdout == b"C0\nnone\n"


def test_several_threads_may_use_it_at_once(host):
    answers: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        answers[number] = [host.run(["cat"], stdin=f"{number}-{n}".encode() * 20_000).stdout[:5] for n in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {number: [f"{number}-{n}{number}-{n}".encode()[:5] for n in range(3)] for number in range(6)} == answers


def test_the_user_id_is_the_machines_own_answer(host):
    assert int(host.run(["id", "-u"]).text) == host.user_id


def test_a_file_is_written_replaced_read_and_removed(host, tmp_path):
    folder = tmp_path / "a folder's" / "$(touch x)"
    path = str(folder / "50-ä b.conf")
    make_folder(host.run, str(folder))
    make_folder(host.run, str(folder))
    assert read_file(host, path) is None
    for data in (b"", bytes(range(256)), b"second\n"):
        write_file(host.run, path, data, 0o640)
        assert data == read_file(host, path)
    assert Path(path).stat().st_mode & 0o7777 == 0o640
    assert [entry.name for entry in folder.iterdir()] == ["50-ä b.conf"]
    remove_file(host.run, path)
    remove_file(host.run, path)
    assert read_file(host, path) is None


def test_it_can_be_entered_again_after_it_was_left(host):
    with host:
        assert host.run(["true"]).exit_code == 0
    with host:
        assert host.run(["true"]).exit_code == 0
