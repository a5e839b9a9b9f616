"""A dry run for people: commands with what they read, secrets hidden, and which configuration it shows."""

from __future__ import annotations

from autotune.deployment.recorded_host import ChangingCommand
from autotune.search_space import search_space_of
from autotune.servers.base import LaunchSpec
from autotune.tuner.rehearsal import Rehearsal, choose_configuration, render_local, render_rehearsal
from tests.stored_study import SECRET, sample_settings


def test_commands_are_shown_with_what_they_read_and_whose_right_they_need():
    write = ChangingCommand(("install", "-m", "0644", "--", "/dev/stdin", "/run/a b.new"), b"[Service]\nX=1\n", True)
    rehearsal = Rehearsal("ubuntu@gpu1", 1000, (("write", (write,)),))

    assert list(render_rehearsal(rehearsal))[1:] == [
        "",
        "# write",
        "* sudo -n -- install -m 0644 -- /dev/stdin '/run/a b.new'",
        "    | [Service]",
        "    | X=1",
    ]


def test_root_needs_no_sudo():
    rehearsal = Rehearsal("root@gpu1", 0, (("go", (ChangingCommand(("systemctl", "daemon-reload"), b"", False),)),))

    assert list(render_rehearsal(rehearsal))[-1] == "  systemctl daemon-reload"


def test_notes_of_the_tuner_are_shown_once_and_drop_ins_each_time():
    note = ChangingCommand(("install", "/dev/stdin", "/run/autotune/x.service/record.json.new"), b"{}", True)
    file = ChangingCommand(("install", "/dev/stdin", "/run/systemd/system/x.service.d/z.conf.new"), b"[Service]", True)

    lines = list(render_rehearsal(Rehearsal("gpu1", 0, (("a", (note, file)), ("b", (note, file))))))

    assert lines.count("    | {}") == 1
    assert lines.count("    | [Service]") == 2


def test_secrets_are_hidden_wherever_they_stand():
    """Case 65: values whose names look secret are not printed."""
    write = ChangingCommand(("install", "/dev/stdin", "/x"), f'{{"HF_TOKEN": "{SECRET}"}}\n'.encode(), False)

    lines = "\n".join(render_rehearsal(Rehearsal("gpu1", 0, (("a", (write,)),), frozenset({SECRET}))))

    assert SECRET not in lines
    assert '"HF_TOKEN": "(hidden)"' in lines


def test_a_local_trial_is_a_command_and_variables_without_secrets():
    launch = LaunchSpec(("serve", "--api-key", SECRET, "--n", "1"), {"A": "x y", "B": None, "HF_TOKEN": SECRET})

    assert list(render_local(launch))[1:] == [
        "export A='x y'",
        "unset B",
        "export HF_TOKEN=(hidden)",
        "serve --api-key (hidden) --n 1".replace("(hidden)", "'(hidden)'"),
    ]


def test_the_first_listed_configuration_that_is_not_the_baseline_is_shown():
    settings = sample_settings().model_copy(update={"try_": ({"budget": 16, "topk": 4}, {"budget": 8})})
    space = search_space_of(settings)

    assert choose_configuration(space, settings) == space.resolve({"budget": 8})


def test_with_nothing_listed_it_is_some_other_than_the_baseline():
    settings = sample_settings()
    space = search_space_of(settings)

    assert choose_configuration(space, settings) != space.resolve(settings.baseline)
