from __future__ import annotations

import venv
from pathlib import Path

import pytest

from autotune.deployment.local_host import LocalHost
from autotune.errors import HostError
from autotune.initial_study.facts import SourceFacts
from autotune.initial_study.source_probe import find_interpreter, read_source


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server") / "venv"
    venv.create(folder, symlinks=True, with_pip=False)
    return folder


def install(environment: Path, files: dict[str, str]) -> None:
    site = next(environment.glob("lib/python3*/site-packages"))
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_an_interpreter_without_sglang_has_no_source(environment):
    assert read_source(LocalHost(), str(environment / "bin/python3"), ()) is None


def test_variables_and_properties_of_the_tree_are_read_without_importing_anything(environment):
    install(
        environment,
        {
            "sglang/__init__.py": "raise SystemExit('the server must not be run')\n",
            "sglang/srt/environ.py": "SGLANG_DDTREE_MAX_TOPK = 6\nSGLANG_OTHER = 1\nSGLANG_DFLASH_MAX_NUM_NODES = 0\n",
            "sglang/srt/speculative/tree.py": "width = min(max(node_budget // max(D, 1) + 1, 2), V, limit)\n",
            "sglang/srt/speculative/worker.py": "make(tree_is_spine=True)\n",
            "sglang-0.5.15.dist-info/METADATA": "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.15\n",
        },
    )

    found = read_source(LocalHost(), str(environment / "bin/python3"), ())

    assert found == SourceFacts(
        "0.5.15",
        frozenset({"SGLANG_DDTREE_MAX_TOPK", "SGLANG_DFLASH_MAX_NUM_NODES"}),
        frozenset({"clipped-width", "chain-within-block"}),
    )


def test_another_width_is_no_proof(environment):
    install(
        environment,
        {
            "sglang/__init__.py": "",
            "sglang/srt/speculative/tree.py": "width = min(budget, V)\n",
            "sglang/srt/speculative/worker.py": "spine = True\n",
        },
    )

    found = read_source(LocalHost(), str(environment / "bin/python3"), ())

    assert found is not None
    assert found.proofs == frozenset()


def test_a_program_that_is_no_interpreter_is_an_error():
    with pytest.raises(HostError):
        read_source(LocalHost(), "/bin/false", ())
    with pytest.raises(HostError, match="something else"):
        read_source(LocalHost(), "/bin/echo", ())


@pytest.mark.parametrize(
    ("command", "interpreter"),
    [
        (("/usr/bin/numactl", "-N", "0", "/v/bin/python3.12", "-m", "sglang.launch_server"), "/v/bin/python3.12"),
        (("/v/bin/sglang", "serve"), "/v/bin/python3"),
        (("/usr/bin/sglang", "serve"), None),
        ((), None),
    ],
)
def test_the_interpreter_is_found_behind_wrappers(command, interpreter):
    assert find_interpreter(command) == interpreter
