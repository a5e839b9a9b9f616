from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.errors import HostBusyError
from autotune.study_lock import LOCK_NAME, StudyLock, read_holder

HOLD = """
import sys, time
from pathlib import Path
from autotune.study_lock import StudyLock
lock = StudyLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_the_holder_is_named_and_the_lock_ends_with_a_killed_process(tmp_path: Path):
    """case 36: a second process is refused while the first lives; after kill -9 the next one gets in."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostBusyError, match=f"process {holder.pid} is working on this study"):
            StudyLock(tmp_path)
        assert read_holder(tmp_path) == holder.pid
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    lock = StudyLock(tmp_path)

    assert read_holder(tmp_path) == os.getpid()
    lock.release()
    lock.release()
    assert read_holder(tmp_path) is None


def test_a_lock_file_that_says_nothing_sensible_names_nobody(tmp_path: Path):
    assert read_holder(tmp_path) is None
    (tmp_path / LOCK_NAME).write_bytes(b"\xff\xfe not a number")
    assert read_holder(tmp_path) is None
    StudyLock(tmp_path).release()
