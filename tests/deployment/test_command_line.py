from __future__ import annotations

import pytest

from autotune.deployment.command_line import find_differences, parse_command
from autotune.servers.base import LaunchSpec

LAUNCH = LaunchSpec(
    ("/venv/bin/python", "-m", "autotune", "serve", "--budget", "16", "--fast", "--host", "127.0.0.1", "--port", "1"),
    {"TOPK": "4", "SIMULATE": None},
)


@pytest.mark.parametrize(
    "command",
    [
        ["/venv/bin/python3.11", "/venv/bin/autotune", "serve", "--budget", "16", "--fast", "--port", "1"],
        ["autotune", "serve", "--port=1", "--fast", "--budget=16", "--host", "127.0.0.1"],
        ["python", "-X", "dev", "-u", "-m", "autotune", "serve", "--fast", "--budget", "16"],
        ["python3", "/src/autotune/__main__.py", "serve", "--fast", "--budget", "16"],
    ],
)
def test_interpreter_order_and_spelling_do_not_matter(command: list[str]):
    assert find_differences(command, {"TOPK": "4", "OTHER": "1"}, LAUNCH) == ()


@pytest.mark.parametrize(
    ("command", "environment", "difference"),
    [
        (["python", "-m", "other", "serve"], {"TOPK": "4"}, "it runs other, not autotune"),
        (["autotune", "serve", "--budget", "8", "--fast"], {"TOPK": "4"}, "--budget is 8, not 16"),
        (
            ["autotune", "serve", "--budget", "16", "--fast", "--seed", "3"],
            {"TOPK": "4"},
            "--seed is 3, but should not be given",
        ),
        (["autotune", "serve", "--budget", "16"], {"TOPK": "4"}, "--fast is not given, not switched on"),
        (["autotune", "serve", "--budget", "16", "--fast", "--port", "2"], {"TOPK": "4"}, "--port is 2, not 1"),
        (["autotune", "bench", "--budget", "16", "--fast"], {"TOPK": "4"}, "its arguments are 'bench', not 'serve'"),
        (["autotune", "serve", "--budget", "16", "--fast"], {}, "the variable TOPK is not set"),
        (["autotune", "serve", "--budget", "16", "--fast"], {"TOPK": "5"}, "the variable TOPK differs"),
        (
            ["autotune", "serve", "--budget", "16", "--fast"],
            {"TOPK": "4", "SIMULATE": "3"},
            "the variable SIMULATE is set",
        ),
        (["autotune", "serve", "--budget", "16", "--fast"], None, "its environment cannot be read"),
        ([], {}, "it runs an unknown program, not autotune"),
    ],
)
def test_each_difference_is_said(command: list[str], environment: dict[str, str] | None, difference: str):
    assert find_differences(command, environment, LAUNCH) == (difference,)


def test_a_negative_number_is_a_value_and_a_repeated_flag_keeps_all():
    parsed = parse_command(["server", "--top-k", "-1", "--tag", "a", "--tag", "b"])

    assert dict(parsed.flags) == {"--top-k": ("-1",), "--tag": ("a", "b")}
