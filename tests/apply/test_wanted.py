"""The drop-in of an apply: around the unit's own command, and what systemd loaded compared with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.apply.wanted import (
    choose_mode,
    find_loaded_differences,
    is_same_setting,
    render_diff,
    tuned_values,
    without_file,
)
from autotune.deployment.unit import LaunchKind, Unit, UnitFile
from autotune.deployment.unit_file import parse_service

OURS = "/etc/systemd/system/x.service.d/50-autotune.conf"
BASE = "[Service]\nEnvironment=TOPK=2\nExecStart=/usr/bin/serve --port 1 --budget 16\n"
EXPORT = "# time\n[Service]\nEnvironment=TOPK=4\nExecStart=\nExecStart=/usr/bin/serve --port 1 --budget 8\n"


def a_unit(*files: UnitFile) -> Unit:
    service = parse_service("\n".join(file.text for file in files))
    words = service.commands[0]
    return Unit(
        name="x.service",
        files=files,
        argv=tuple(word.text for word in words),
        words=words,
        environment=service.environment,
        unset_environment=(),
        environment_files=(),
        launch_kind=LaunchKind.DIRECT,
        type="simple",
        restart="on-failure",
        kill_mode="control-group",
        user="root",
        timeout_start_s=90.0,
        timeout_stop_s=90.0,
        is_enabled=True,
        needs_reload=False,
    )


BASE_FILE = UnitFile("/etc/systemd/system/x.service", BASE, 0o644)
EXPORT_FILE = UnitFile(OURS, EXPORT, 0o644)


def test_without_an_earlier_export_the_unit_has_its_own_command_again():
    """Case 70: an `autotune.conf` of an earlier export is there."""
    unit = without_file(a_unit(BASE_FILE, EXPORT_FILE), OURS)

    assert [word.text for word in unit.words] == ["/usr/bin/serve", "--port", "1", "--budget", "16"]
    assert unit.environment == {"TOPK": "2"}


def test_a_unit_without_an_earlier_export_stays_as_it_is():
    unit = a_unit(BASE_FILE)

    assert without_file(unit, OURS) is unit


def test_a_section_does_not_go_on_in_the_next_file():
    stray = UnitFile("/etc/systemd/system/x.service.d/60-x.conf", "ExecStart=/bin/stray\n", 0o644)

    unit = without_file(a_unit(BASE_FILE, EXPORT_FILE), OURS)

    assert without_file(replace(unit, files=(BASE_FILE, EXPORT_FILE, stray)), OURS).words == unit.words


def test_a_loaded_unit_that_is_as_meant_has_no_differences():
    assert find_loaded_differences(a_unit(BASE_FILE, EXPORT_FILE), EXPORT, OURS) == ()


def test_a_unit_that_has_not_read_our_file_says_so():
    found = find_loaded_differences(a_unit(BASE_FILE), EXPORT, OURS)

    assert found == (
        f"{OURS} is not among its files",
        "its command is another one: '16' in place of '8'",
        "variable TOPK is another",
    )


@pytest.mark.parametrize(
    ("written", "loaded"),
    [("%h/serve", "/root/serve"), ("50%%", "50%"), ("$HOME/x", "$HOME/x"), ("-/usr/bin/x", "/usr/bin/x")],
)
def test_words_that_systemd_resolves_are_no_differences(written, loaded):
    text = f"[Service]\nExecStart={written}\n"
    unit = replace(a_unit(UnitFile(OURS, text, 0o644)), argv=(loaded,))

    assert find_loaded_differences(unit, text, OURS) == ()


def test_two_drop_ins_that_differ_in_comments_only_say_the_same():
    assert is_same_setting(b"# yesterday\n[Service]\nA=b\n", b"# today\n\n[Service]\nA=b\n")
    assert not is_same_setting(b"[Service]\nA=b\n", b"[Service]\nA=c\n")
    assert not is_same_setting(None, b"")


def test_a_diff_hides_what_looks_secret():
    """Case 65: values whose names look secret are not printed."""
    lines = render_diff(None, b"[Service]\nExecStart=/bin/x --api-key hunter2 --budget 8\n", OURS)

    assert lines[:2] == ["--- /dev/null", f"+++ {OURS}"]
    assert lines[-1] == "+ExecStart=/bin/x --api-key (hidden) --budget 8"


def test_nothing_to_change_is_no_diff():
    assert render_diff(EXPORT.encode(), EXPORT.encode(), OURS) == []


def test_a_new_file_is_no_more_open_than_the_units_others():
    assert choose_mode(None, [0o644, 0o640]) == 0o640
    assert choose_mode(None, [0o666]) == 0o644
    assert choose_mode(0o600, [0o644]) == 0o600


def test_tuned_flags_of_a_command_are_found_in_both_spellings():
    argv = ["x", "--budget=8", "--topk", "4", "--fast", "--other", "1"]

    assert tuned_values(argv, {"--budget": True, "--topk": True, "--fast": False}) == {
        "--budget": "8",
        "--topk": "4",
        "--fast": None,
    }
