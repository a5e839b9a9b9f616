"""Dependencies point down only, and what is not needed is not loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "autotune"

LAYERS: list[set[str]] = [
    {"errors", "clock", "packaged", "draft_hook"},
    {"measuring_mark", "trial", "settings_mistakes", "api_key"},
    {"search_space_file"},
    {"settings", "events", "expression", "interval", "pass_rate", "trial_attributes", "study_lock", "drift"},
    {"settings_difference"},
    {"search_space", "objectives", "eta"},
    {"found_configuration"},
    {"servers", "pareto", "baseline", "exercise"},
    {"deployment", "benchmark", "sampling", "storage", "confirmation"},
    {"replay"},
    {"suggestion", "study_view", "trial_ledger", "evaluation"},
    {"study", "pruning", "optuna_sampler"},
    {"export", "dashboard"},
    {"apply"},
    {"tuner"},
    {"doctor"},
    {"initial_study"},
    {"simulation"},
    {"cli"},
]
"""Lower rows first: a module may import its own package and lower rows, nothing beside or above."""

MAY_IMPORT_OPTUNA = {"study", "storage", "sampling", "dashboard", "optuna_sampler"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")


def unit_of(path: Path) -> str:
    """First name below the package: the module or sub-package that a file belongs to."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imports_of(path: Path, *, only_top_level: bool = False) -> set[str]:
    """Dotted names that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.iter_child_nodes(tree) if only_top_level else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "autotune"}
    return names


def rank(unit: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if unit in layer)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_lies_below_it(path):
    unit = unit_of(path)
    if unit == "__init__":
        return
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] != "autotune" or len(parts) == 1:
            continue
        other = parts[1]
        if other in {unit, "__version__"}:
            continue
        if unit == "ddtree":
            assert other == "errors", f"the embedded server must not know {name}"
        elif other == "ddtree":
            assert path.name == "serve.py", f"only `autotune serve` may import {name}"
        else:
            assert rank(other) < rank(unit), f"{unit} must not import {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optuna_is_known_only_where_trials_are_stored_and_proposed(path):
    uses = {name.split(".")[0] for name in imports_of(path)} & {"optuna", "optuna_dashboard"}

    assert not uses or unit_of(path) in MAY_IMPORT_OPTUNA


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_is_loaded_only_by_the_embedded_server(path):
    if unit_of(path) != "ddtree":
        assert "torch" not in {name.split(".")[0] for name in imports_of(path, only_top_level=True)}


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from click.testing import CliRunner; from autotune.cli import main\n"
        "result = CliRunner().invoke(main, ['--help']); assert result.exit_code == 0, result.output\n"
        "print(' '.join(sorted({'torch', 'optuna', 'pydantic', 'numpy', 'httpx', 'plotly', 'rich'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_a_study_is_opened_without_what_only_some_samplers_need():
    program = "import sys, autotune.study; print(sorted({'scipy', 'sklearn', 'torch', 'plotly'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
