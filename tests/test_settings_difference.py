from __future__ import annotations

import json

import pytest

from autotune.errors import StudyMismatchError
from autotune.settings import DeploymentSettings, EvaluationSettings, PruningSettings, SamplerSettings, StudySettings
from autotune.settings_difference import dump_settings, find_differences, load_settings_dump
from tests.records import STUDY, make_settings


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("budget = 16", "budget = 17", "baseline.budget was 16 and is now 17"),
        (
            "context = 128, concurrency = 1 ",
            "context = 256, concurrency = 1 ",
            "benchmark.stages.1.cells.0.context was 128 and is now 256",
        ),
        ("[benchmark]", "[benchmark]\nignore_eos = true", "benchmark.ignore_eos was false and is now true"),
        ("[server]", "[server]\nenvironment = { A = '1' }", 'server.environment.A was not set and is now "1"'),
        ('name = "test"', 'name = "test"\nseed = 2', "seed was 1 and is now 2"),
        ("[benchmark]", "[evaluation]\nproblems = 3\n[benchmark]", "evaluation.problems was not set and is now 3"),
    ],
)
def test_what_decides_a_figure_may_not_differ(old: str, new: str, said: str):
    """case 27 and its kind: trials measured differently are not mixed."""
    differences = find_differences(make_settings(), make_settings(STUDY.replace(old, new)))

    assert len(differences) == 1
    assert differences[0].startswith(said)


def test_what_decides_no_figure_may_differ():
    text = STUDY.replace("[server]", "[server]\nport = 1\nhost = 'localhost'\nstop_timeout_s = 9").replace(
        "[benchmark]",
        "[export]\nrule = 'c1'\n[evaluation]\nisolation = 'run generated code without isolation'\n[benchmark]\nrequest_timeout_s = 9",
    )
    wanted = make_settings(text, try_=({"budget": 1},), pruning=PruningSettings(enabled=False), storage="sqlite:///x")

    assert find_differences(make_settings(), wanted) == ()


def test_a_file_of_problems_may_move_but_not_come_or_go():
    one, other = (make_settings(evaluation=EvaluationSettings(problem_file=path)) for path in ("/a/x", "/b/x"))

    assert find_differences(one, other) == ()
    assert len(find_differences(make_settings(), one)) == len(find_differences(one, make_settings())) == 1


def test_every_difference_is_named():
    wanted = make_settings(seed=9, sampler=SamplerSettings(name="tpe"), pruning=PruningSettings(threshold=0.5))

    assert len(find_differences(make_settings(), wanted)) == 3


def test_stored_settings_come_back_equal_and_without_the_storages_url():
    settings = make_settings(storage="postgresql://user:secret@host/db")
    dump = dump_settings(settings)

    assert "secret" not in str(dump)
    assert load_settings_dump(dump, "here") == settings.model_copy(update={"storage": None})


def test_settings_of_an_older_version_get_the_defaults_of_new_keys():
    dump = dump_settings(make_settings())
    del dump["seed"]

    assert load_settings_dump(dump, "here").seed == 1


def test_settings_that_this_version_cannot_read_are_refused():
    with pytest.raises(StudyMismatchError, match="cannot be read by this version"):
        load_settings_dump({**dump_settings(make_settings()), "future": 1}, "here")


def with_variables(text: str):
    return make_settings(STUDY.replace("[server]", f"[server]\nenvironment = {{ {text} }}"))


def test_a_variable_that_is_named_like_a_timeout_is_no_timeout_of_ours():
    differences = find_differences(with_variables('read_timeout_s = "1"'), with_variables('read_timeout_s = "2"'))

    assert differences == ('server.environment.read_timeout_s was "1" and is now "2"',)


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "db_password", "AWS_SECRET", "KEY"])
def test_a_secret_that_differs_is_named_and_not_printed(name: str):
    differences = find_differences(with_variables(f'{name} = "sekret1"'), with_variables(f'{name} = "sekret2"'))

    assert differences == (f"server.environment.{name} was a hidden value and is now a hidden value",)


def test_a_number_that_only_looks_like_a_secret_is_shown():
    differences = find_differences(with_variables('MONKEY = "1"'), with_variables('MONKEY = "2"'))

    assert differences == ('server.environment.MONKEY was "1" and is now "2"',)


def test_a_key_in_the_command_is_not_printed():
    before, after = (
        make_settings(
            STUDY.replace("[server]", f'[server]\ncommand = ["x", "--api-key", "{key}", "--tokenizer-path=b"]')
        )
        for key in ("sekret1", "sekret2")
    )

    (difference,) = find_differences(before, after)

    assert difference == "server.command was a hidden value and is now a hidden value"


def with_command(*words: str) -> StudySettings:
    return make_settings(STUDY.replace("[server]", f"[server]\ncommand = {json.dumps(words)}"))


def test_what_follows_a_flag_with_a_secret_is_compared_and_the_secret_not_printed():
    (difference,) = find_differences(with_command("x", "--api-key", "sekret"), with_command("x", "--token", "sekret"))

    assert difference == ('server.command was ["x", "--api-key", "(hidden)"] and is now ["x", "--token", "(hidden)"]')


def test_of_a_long_value_is_shown_where_it_differs():
    words = [f"--flag-{number}" for number in range(60)]
    changed = [*words[:50], "--other", *words[50:]]

    (difference,) = find_differences(with_command(*words), with_command(*changed))

    assert len(difference) < 200
    assert '"--flag-50"' in difference.partition(" and is now ")[0]
    assert '"--other"' in difference.partition(" and is now ")[2]


def test_another_number_of_stages_is_said_by_their_names():
    longer = make_settings(
        f"{STUDY}\n[[benchmark.stages]]\nname = 'long'\ncells = [{{ context = 9, concurrency = 1 }}]\n"
    )

    assert find_differences(make_settings(), longer) == (
        "benchmark.stages was 2 tables (busy, single) and is now 3 tables (busy, single, long)",
    )


def on_service(**changes: object) -> StudySettings:
    options = {"kind": "systemd", "unit": "x.service", "host": "root@gpu1", **changes}
    return make_settings(deployment=DeploymentSettings.model_validate(options))


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "ann@gpu1"},
        {"host": "gpu1"},
        {"ssh_config": "/tmp/config"},
        {"lease_s": 60.0},
        {"gpu_idle_mb": 9},
    ],
)
def test_the_way_to_the_same_service_may_differ(changes: dict[str, object]):
    assert find_differences(on_service(), on_service(**changes)) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"host": "root@gpu2"}, 'deployment.host was "root@gpu1" and is now "root@gpu2"'),
        ({"host": None}, 'deployment.host was "root@gpu1" and is now not set'),
        ({"unit": "y.service"}, 'deployment.unit was "x.service" and is now "y.service"'),
        ({"data_path": "direct"}, 'deployment.data_path was not set and is now "direct"'),
    ],
)
def test_another_machine_service_or_data_path_may_not(changes: dict[str, object], said: str):
    assert find_differences(on_service(), on_service(**changes)) == (said,)
