from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from autotune.errors import UserError
from autotune.initial_study.facts import Facts, Gpu, Sampling
from autotune.initial_study.request_lengths import RequestLengths
from autotune.initial_study.study_text import InitialStudy, write_study
from autotune.search_space import SearchSpace, search_space_of
from autotune.servers.sglang import SglangDialect
from autotune.settings import DeploymentSettings, StudySettings, parse_settings
from tests.initial_study.services import DDTREE, DRAFT, HERE, TRITON, make_facts, names

PLAIN = (*TRITON, *DRAFT, "--speculative-num-draft-tokens", "8")
TREE = (*TRITON, *DRAFT, *DDTREE)


def write(facts: Facts, deployment: DeploymentSettings = HERE) -> tuple[StudySettings, SearchSpace, InitialStudy]:
    study = write_study(facts, deployment, "kimi")
    settings = parse_settings(study.text, "kimi.toml")
    return settings, search_space_of(settings), study


def test_the_study_of_a_tree_names_what_runs_as_its_baseline():
    settings, space, study = write(make_facts(*TREE))

    assert settings.baseline == {"budget": 16, "topk": 4, "window": "none"}
    assert settings.deployment.kind == "systemd"
    assert settings.deployment.unit == "sglang-ddtree.service"
    assert settings.server.host == "127.0.0.1"
    assert (settings.server.ready_timeout_s, settings.server.port) == (3 * 615, 30000)
    assert settings.server.proofs == ("chain-within-block", "clipped-width")
    assert settings.benchmark.sampling.thinking is False
    assert settings.benchmark.sampling.temperature == 0.6
    assert settings.evaluation.sampling == settings.benchmark.sampling
    assert {space.arm(space.resolve(values)) for values in (settings.baseline, *settings.try_)} == {
        "plain",
        "chain",
        "tree",
    }
    assert "8 x RTX PRO 6000 with 96 GiB" in study.text


def test_the_listed_configuration_of_an_arm_is_a_usual_one():
    listed = write(make_facts(*PLAIN, environment={}))[0].try_

    assert [(item["budget"], item["topk"], item["window"]) for item in listed] == [(7, 1, "none"), (21, 4, "none")]


def test_every_window_is_exceeded_by_a_context_and_holds_the_block():
    settings, space, _ = write(make_facts(*TREE))

    longest = max(cell.context for stage in settings.benchmark.stages for cell in stage.cells)
    windows = [window for window in space.parameters["window"].domain if window is not None]
    assert windows == [1024, 2048, 4096]
    assert longest > 4096


def test_cells_are_busiest_first_and_cover_both_concurrencies_at_each_context():
    settings, _, _ = write(make_facts(*TREE))

    cells = [cell.cell for stage in settings.benchmark.stages for cell in stage.cells]
    assert (cells[0].context, cells[0].concurrency) == (1024, 32)
    assert {(cell.context, cell.concurrency) for cell in cells} == {
        *((context, concurrency) for context in (60, 1024, 4096) for concurrency in (1, 32)),
        (16384, 1),
    }
    assert settings.benchmark.output_tokens == 512


def test_thresholds_are_stated_as_lossless_and_a_lower_live_value_is_a_warning():
    facts = make_facts(*TREE, "--speculative-accept-threshold-single", "0.8")

    settings, space, study = write(facts)

    arguments = SglangDialect(space, settings.server).render_launch(space.resolve(settings.baseline)).arguments
    assert arguments[arguments.index("--speculative-accept-threshold-single") + 1] == "1"
    assert any("--speculative-accept-threshold-single is 0.8" in sentence for sentence in study.warnings)
    assert not any("accept-threshold" in sentence for sentence in write(make_facts(*TREE))[2].warnings)


def test_a_backend_without_trees_leaves_the_chain_and_says_so():
    flags = (*DRAFT, "--page-size", "1", "--attention-backend", "fa3", "--speculative-algorithm", "DDTREE")
    facts = make_facts(*flags, "--speculative-ddtree-budget", "7", "--speculative-num-draft-tokens", "8")

    _, space, study = write(facts)

    assert max(int(str(item["budget"])) for item in space.configurations) == 7
    assert "tree" not in {space.arm(item) for item in space.configurations}
    assert any("--attention-backend fa3" in note for note in study.notes)


def test_what_the_server_does_not_take_is_not_searched():
    supported = names("--speculative-ddtree-budget", "--speculative-num-draft-tokens", "--speculative-algorithm")
    facts = make_facts(*TREE, supported=supported, source=None, environment={})

    settings, space, study = write(facts)

    assert space.names == ("budget", "topk")
    assert not {"accept_threshold_single", "accept_threshold_acc"} & set(space.derived)
    assert settings.baseline["topk"] == 6
    assert any("--speculative-draft-window-size" in note for note in study.notes)


def test_a_width_that_the_installed_files_do_not_name_is_not_searched():
    source = make_facts().source
    assert source is not None
    facts = make_facts(*TREE, source=replace(source, variables=frozenset()), environment={})

    assert write(facts)[1].names == ("budget", "window")


def test_values_that_run_outside_the_packaged_bounds_are_taken_in():
    flags = (*TRITON, *DRAFT, "--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "48")
    facts = make_facts(
        *(*flags, "--speculative-num-draft-tokens", "16", "--speculative-draft-window-size", "3000"),
        environment={"SGLANG_DDTREE_MAX_TOPK": "9"},
        source=None,
    )

    settings, space, _ = write(facts)

    assert settings.baseline == {"budget": 48, "topk": 9, "window": 3000}
    assert 3000 in space.parameters["window"].domain
    assert space.render_flags(space.resolve(settings.baseline)).arguments[-6:-4] == (
        "--speculative-num-draft-tokens",
        "16",
    )


@pytest.mark.parametrize(
    ("facts", "space"),
    [
        (make_facts(*TREE), "ddtree_sglang"),
        (make_facts(*PLAIN), "ddtree_sglang"),
        (
            make_facts(
                *(*DRAFT, "--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16"),
                *("--speculative-ddtree-block-size", "8", "--attention-backend", "fa3"),
                takes=("--speculative-ddtree-budget", "--speculative-ddtree-block-size"),
            ),
            "ddtree_v2",
        ),
        (
            make_facts(*DRAFT, "--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "8", takes=()),
            "dflash",
        ),
        (
            make_facts(
                *(*DRAFT, "--speculative-algorithm", "DFLASH", "--speculative-dflash-tree-width", "4"),
                *("--speculative-dflash-block-size", "8"),
                takes=("--speculative-dflash-tree-width",),
                source=None,
            ),
            "dflash_tree",
        ),
        (
            make_facts(*DDTREE, takes=("--speculative-ddtree-budget", "--speculative-ddtree-clip-width"), source=None),
            "ddtree",
        ),
    ],
)
def test_the_family_is_told_by_the_flags(facts, space):
    settings, found, _ = write(facts)

    assert found.name == space
    assert found.key(found.resolve(settings.baseline))


def test_a_server_that_refuses_sampling_is_measured_greedily():
    facts = make_facts(
        *(*DRAFT, "--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "8"),
        takes=("--speculative-dflash-tree-width",),
    )

    assert write(facts)[0].benchmark.sampling.temperature == 0


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (make_facts(*TREE, takes=(), supported=names("--model-path")), "takes none of the flags"),
        (make_facts(*PLAIN, supported=None, supported_by=None), "nobody tells which flags"),
        (make_facts(*TRITON, *DDTREE), "names no drafter"),
        (make_facts(*TREE, environment={"SGLANG_SIMULATE_ACC_LEN": "4"}), "invents its accept lengths"),
        (make_facts(*TREE, "--disaggregation-mode", "prefill"), "--disaggregation-mode prefill"),
        (make_facts(*DRAFT, *TRITON, "--speculative-algorithm", "EAGLE"), "speculates with EAGLE"),
        (make_facts(*TRITON, *DRAFT, *DDTREE[:4]), "block is not known"),
        (make_facts(*TRITON, *DRAFT, *DDTREE[:2], *DDTREE[4:]), "neither the command nor the server tells budget"),
    ],
)
def test_a_service_of_which_no_study_can_be_made_is_refused_in_words(facts, words):
    with pytest.raises(UserError, match=words) as caught:
        write_study(facts, HERE, "kimi")

    assert caught.value.exit_code == 2


def test_simulated_acceptance_that_is_switched_off_is_no_obstacle():
    assert write(make_facts(*TREE, environment={"SGLANG_SIMULATE_ACC_LEN": "-1"}))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--max-running-requests", "16"), "--max-running-requests is 16"),
        (("--cuda-graph-max-bs", "8"), "captured up to 8 requests"),
        (("--api-key", "(hidden)"), "--api-key is set: export AUTOTUNE_API_KEY"),
        (("--admin-api-key", "(hidden)"), "--admin-api-key is set"),
        ((), "--enable-metrics is not on"),
    ],
)
def test_what_should_be_changed_before_a_night_is_said(flags, words):
    assert any(words in sentence for sentence in write(make_facts(*TREE, *flags))[2].warnings)


def test_a_study_names_the_variable_of_a_key_where_the_server_wants_one():
    assert write(make_facts(*TREE, "--api-key", "(hidden)"))[0].server.api_key_variable == "AUTOTUNE_API_KEY"
    assert write(make_facts(*TREE, "--admin-api-key", "(hidden)"))[0].server.api_key_variable is None


def test_a_unit_in_good_order_has_no_warning():
    facts = make_facts(*TREE, "--enable-metrics", "--max-running-requests", "48", "--cuda-graph-max-bs", "48")

    assert write(facts)[2].warnings == ()


def test_a_server_reached_over_ssh_is_measured_through_a_tunnel():
    deployment = DeploymentSettings(
        kind="systemd", unit="sglang-ddtree.service", host="root@gpu1", ssh_config="/etc/cfg"
    )

    settings, _, _ = write(make_facts(*TREE), deployment)

    assert settings.deployment.host == "root@gpu1"
    assert settings.deployment.ssh_config == "/etc/cfg"
    assert settings.deployment.data_path == "tunnel"


def test_cells_without_room_on_the_server_are_left_out_and_named():
    reported = {"max_req_input_len": 8191, "max_total_num_tokens": 100_000, "speculative_num_draft_tokens": 8}

    settings, _, study = write(make_facts(*TREE, reported=reported))

    cells = {(cell.context, cell.concurrency) for stage in settings.benchmark.stages for cell in stage.cells}
    assert (4096, 1) in cells
    assert (4096, 32) not in cells
    assert not any(context == 16384 for context, _ in cells)
    assert any("16384" in note for note in study.notes)


def test_long_prompts_in_the_journal_make_the_long_cell_longer():
    lengths = RequestLengths(batches=100, requests=120, median=9000, p90=30_000, longest=50_000, busiest=17)

    settings, _, study = write(make_facts(*TREE, lengths=lengths))

    assert max(cell.context for stage in settings.benchmark.stages for cell in stage.cells) == 32_768
    assert "nine of ten up to 30000" in study.text


def test_a_block_that_is_reported_otherwise_than_written_is_not_compared():
    reported = {"speculative_num_draft_tokens": 17, "speculative_ddtree_budget": 16, "speculative_algorithm": "DDTREE"}

    _, space, study = write(make_facts(*TREE, reported=reported))

    assert space.derived["block"].reported_as is None
    assert any("not compared" in note for note in study.notes)


def test_a_flag_is_written_by_the_name_that_an_older_server_takes():
    supported = names(
        *("--speculative-ddtree-budget", "--speculative-algorithm", "--speculative-num-draft-tokens"),
        "--speculative-dflash-draft-window-size",
    )
    facts = make_facts(*TREE, "--speculative-dflash-draft-window-size", "2048", supported=supported)

    settings, space, _ = write(facts)

    assert settings.baseline["window"] == 2048
    assert "--speculative-dflash-draft-window-size" in space.render_flags(space.resolve(settings.baseline)).arguments
    assert "--speculative-draft-window-size" in space.tuned_flags


def test_the_model_recommends_how_answers_are_sampled():
    facts = make_facts(*TREE, sampling=Sampling(0.7, None))
    facts = make_facts(
        *("--model-path", "/models/other", *TREE),
        command=("python", "--model-path", "/m/q", *TREE),
        sampling=facts.sampling,
    )

    settings, _, _ = write(facts)

    assert (settings.benchmark.sampling.temperature, settings.benchmark.sampling.top_p) == (0.7, 1.0)
    assert settings.benchmark.sampling.thinking is None


def words_of(study: InitialStudy) -> str:
    """The study's text with each comment on one line."""
    return re.sub(r"\n# ", " ", study.text)


EMBEDDED: dict[str, Any] = {
    "takes": ("--speculative-ddtree-budget", "--speculative-ddtree-clip-width"),
    "source": None,
    "command": ("autotune", "serve", *DDTREE),
}
STOPPED: dict[str, Any] = {**EMBEDDED, "active_state": "inactive", "load_s": None}


@pytest.mark.parametrize(
    ("changes", "ready_s", "said"),
    [
        ({"load_s": 615.0}, 1845, "took 615 s by the journal; 3 times that is given."),
        ({"load_s": 5.0}, 1800, "took 5 s by the journal; 1800 s is the least that is given."),
        ({**EMBEDDED, "load_s": 5.0}, 120, "took 5 s by the journal; 120 s is the least that is given."),
        ({"load_s": None}, 1800, "not known, because its ready line is not in the journal; 1800 s is given"),
        (STOPPED, 120, "not known, because the service is inactive; 120 s is given"),
    ],
)
def test_the_patience_with_a_start_is_explained_by_what_decided_it(changes, ready_s, said):
    settings, _, study = write(make_facts(*TREE, **changes))

    assert settings.server.ready_timeout_s == ready_s
    assert said in words_of(study)


def test_of_a_service_that_is_stopped_nothing_is_said_to_run():
    _, _, study = write(make_facts(*TREE, **STOPPED))
    said = words_of(study)

    assert "from its unit, because the service is inactive." in said
    assert (
        "Model unknown; drafter unknown (the command does not say, and the service is inactive); 8 x RTX PRO 6000"
        in said
    )
    assert "What the unit would start." in said
    assert "runs now" not in said


@pytest.mark.parametrize(
    ("reported", "why"), [(None, "the server does not answer"), ({"version": "1"}, "the server does not report it")]
)
def test_why_a_model_is_unknown_is_said(reported, why):
    facts = make_facts(*TREE, **EMBEDDED, reported=reported)

    assert f"drafter unknown (the command does not say, and {why})" in words_of(write(facts)[2])
    assert "unknown" not in words_of(write(make_facts(*TREE, reported={"version": "1"}))[2]).partition("[server]")[0]


def test_no_file_is_named_that_nobody_knows_of_and_every_number_has_its_reason():
    study = write(make_facts(*TREE, *TRITON))[2]
    said = words_of(study)

    assert "studies/" not in said
    assert "autotune doctor STUDY --until 06:30" in said
    lines = study.text.splitlines()
    for key in ("lease_s", "ready_timeout_s", "stall_timeout_s", "stop_timeout_s", "proofs"):
        index = next(index for index, line in enumerate(lines) if line.startswith(f"{key} ="))
        assert lines[index - 1].startswith("# ")
        assert lines[index - 1].endswith((".", "model."))


def test_a_short_summary_says_what_was_found_searched_and_measured():
    found, *rest = write(make_facts(*TREE))[2].summary

    assert found.startswith(
        "sglang-ddtree.service is active, port 30000. Model /models/Kimi-K2.6; drafter /models/Kimi-K2.6-D"
    )
    assert found.endswith("; 8 x RTX PRO 6000 with 96 GiB")
    assert rest == [
        "searched: 273 configurations of budget, topk, window; baseline budget=16 topk=4 window=none",
        "measured: 7 cells, 2 times each, prompts up to 16384 tokens, answers up to 512",
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@limits(max_examples=15)  # each one lists a whole search space several times
@given(
    st.integers(1, 40),
    st.integers(2, 32),
    st.integers(2, 8),
    st.none() | st.integers(32, 200_000),
    st.none() | st.floats(0, 5e4),
    st.lists(st.builds(Gpu, TEXT, st.none() | st.integers(0, 10**6)), max_size=3),
    TEXT,
    st.lists(TEXT, max_size=2),
    st.none() | st.floats(0, 1e5),
    st.none() | st.builds(Sampling, st.none() | st.floats(0, 10), st.none() | st.floats(0.01, 1)),
)
def test_whatever_runs_and_however_it_is_called_the_study_can_be_read_and_holds_it(
    budget, block, topk, window, load_s, gpus, version, files, timeout_s, sampling
):
    flags = ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", str(budget), *TRITON, *DRAFT]
    flags += ["--speculative-num-draft-tokens", str(block)]
    if window is not None:
        flags += ["--speculative-draft-window-size", str(max(window, block))]
    facts = make_facts(
        *flags,
        environment={"SGLANG_DDTREE_MAX_TOPK": str(topk)},
        load_s=load_s,
        gpus=tuple(gpus),
        reported={"version": version},
        files=tuple(files),
        timeout_stop_s=timeout_s,
        sampling=sampling,
        unanswered=(version,),
    )

    settings, space, study = write(facts)

    wanted = {"budget": budget, "topk": topk, "window": "none" if window is None else max(window, block)}
    assert settings.baseline == wanted
    rendering = space.render_flags(space.resolve(settings.baseline))
    assert str(budget) in rendering.arguments
    assert tomllib.loads(study.text)["name"] == "kimi"


def test_a_log_that_nobody_can_read_is_said_before_a_night():
    facts = make_facts(*TREE, log_gap="the service's log goes to a file, not to the journal")

    assert any("set StandardOutput=journal in the unit" in sentence for sentence in write(facts)[2].warnings)
