"""What the GPU tools say of clocks, power, temperature and throttling."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autotune.deployment.gpu_activity import GpuTool, parse_nvidia, parse_rocm, summarise
from autotune.deployment.host import CommandOutput
from tests.deployment.scripted_host import ScriptedHost

NVIDIA = (
    "0, GPU-a, 1980, 612.31, 61, 0x0000000000000004\n"
    "1, GPU-b, 345, 70.02, 88, 0x0000000000000041\n"
    "2, GPU-c, [N/A], [N/A], [N/A], [N/A]\n"
)
ROCM = (
    "WARNING: AMD GPU device(s) is/are in a low-power state\n"
    '{"card0": {"sclk clock speed:": "(2100Mhz)", "sclk clock level:": "7", '
    '"Temperature (Sensor edge) (C)": "50.0", "Temperature (Sensor junction) (C)": "58.0", '
    '"Current Socket Graphics Package Power (W)": "410.0"}, "system": {"Driver version": "6.7.0"}}\n'
)


def output(text: str, exit_code: int = 0) -> CommandOutput:
    return CommandOutput(exit_code, text.encode(), b"")


def test_the_table_of_nvidia():
    first, second, third = parse_nvidia(NVIDIA)

    assert (first.gpu, first.name, first.clock_mhz, first.power_w, first.temperature_c) == (
        "GPU-a",
        "GPU 0",
        1980.0,
        612.31,
        61.0,
    )
    assert first.slowed_by == frozenset({"software power cap"})
    assert second.slowed_by == frozenset({"hardware thermal slowdown"}), "idle is no slowdown"
    assert (third.clock_mhz, third.power_w, third.temperature_c, third.slowed_by) == (None, None, None, None)


def test_the_json_of_rocm():
    (card,) = parse_rocm(ROCM)

    assert (card.name, card.clock_mhz, card.power_w, card.temperature_c) == ("GPU 0", 2100.0, 410.0, 58.0)
    assert card.slowed_by is None


@pytest.mark.parametrize("text", ["", "No devices were found\n", "{", "[1]", "{nonsense}"])
def test_what_is_no_answer_is_no_gpu(text: str):
    assert parse_nvidia(text) == ()
    assert parse_rocm(text) == ()


def test_an_old_driver_is_asked_by_the_old_name_and_from_then_on_only_by_it():
    def answer(command: Sequence[str], _stdin: bytes) -> CommandOutput:
        if "clocks_event_reasons.active" in command[1]:
            return output('Field "clocks_event_reasons.active" is not a valid field to query.\n', 2)
        return output(NVIDIA)

    host = ScriptedHost(answer)
    tool = GpuTool(host)

    assert len(tool.sample()) == len(tool.sample()) == 3
    assert len(host.commands) == 3


def test_rocm_is_asked_where_there_is_no_nvidia():
    tool = GpuTool(ScriptedHost(lambda command, _: output(ROCM) if command[0] == "rocm-smi" else output("", 127)))

    assert [sample.name for sample in tool.sample()] == ["GPU 0"]


def test_a_host_without_a_tool_is_asked_once():
    host = ScriptedHost(lambda _command, _stdin: output("", 127))
    tool = GpuTool(host)

    assert tool.sample() == tool.sample() == ()
    assert len(host.commands) == 3


def test_many_samples_become_means_and_shares():
    cool = parse_nvidia("10, GPU-k, 2000, 600, 60, 0x4\n2, GPU-c, 1000, 300, 50, 0x0\n")
    hot = parse_nvidia("10, GPU-k, 1000, 400, 90, 0x20\n2, GPU-c, 1000, 300, 52, [N/A]\n")

    second, tenth = summarise((*cool, *hot))

    assert (second.name, second.samples, second.clock_mhz, second.hottest_c, second.slowed) == (
        "GPU 2",
        2,
        1000.0,
        52.0,
        {},
    )
    assert (tenth.clock_mhz, tenth.power_w, tenth.hottest_c) == (1500.0, 500.0, 90.0)
    assert tenth.slowed == {"software power cap": 0.5, "software thermal slowdown": 0.5}
