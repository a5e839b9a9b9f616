"""The studies and search spaces that come with the package."""

from __future__ import annotations

import itertools

import pytest

from autotune.packaged import find_packaged, list_packaged
from autotune.search_space import SearchSpace, load_search_space, search_space_of
from autotune.search_space_file import load_search_space_file
from autotune.servers.sglang import SglangDialect
from autotune.settings import StudySettings, load_settings

STUDIES = list_packaged("studies")
SPACES = list_packaged("search_spaces")
PROOFS = ((), ("clipped-width",), ("chain-within-block",), ("clipped-width", "chain-within-block"))


def load(name: str) -> StudySettings:
    path = find_packaged("studies", f"{name}.toml")
    assert path is not None
    return load_settings(path)


def prove(settings: StudySettings, *proofs: str) -> StudySettings:
    return settings.model_copy(update={"server": settings.server.model_copy(update={"proofs": proofs})})


@pytest.mark.parametrize("name", STUDIES)
def test_a_packaged_study_is_called_as_its_file_and_every_configuration_reaches_the_server(name):
    settings = load(name)
    space = search_space_of(settings)
    dialect = SglangDialect(space, settings.server)

    assert settings.name == name
    launches = {
        (launch.arguments, tuple(launch.environment.items()))
        for launch in map(dialect.render_launch, space.configurations)
    }
    assert len(launches) == space.size


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("proofs", PROOFS)
def test_the_listed_configurations_are_in_the_space_and_all_different(name, proofs):
    settings = prove(load(name), *proofs)
    space = search_space_of(settings)

    listed = [space.resolve(values) for values in (settings.baseline, *settings.try_)]

    assert len({space.key(configuration) for configuration in listed}) == len(listed)


def test_without_proofs_the_kimi_study_lists_canonical_forms_of_every_arm():
    settings = load("kimi-k26-8gpu")
    space = search_space_of(settings)
    listed = [space.resolve(values) for values in (settings.baseline, *settings.try_)]

    for values, configuration in zip((settings.baseline, *settings.try_), listed, strict=True):
        for name, value in values.items():
            assert configuration[name] == (None if value == "none" else value)
    assert {space.arm(configuration) for configuration in listed} == {"plain", "chain", "tree"}
    seeds = {(item["budget"], item["topk"], item["window"]) for item in listed}
    assert {(16, 4, 2048), (4, 4, 2048), (8, 4, None)} <= seeds


@pytest.mark.parametrize("name", STUDIES)
def test_every_window_is_shorter_than_a_prompt_with_its_answer(name):
    settings = load(name)
    space = search_space_of(settings)
    longest = max(cell.context for stage in settings.benchmark.stages for cell in stage.cells)
    longest += settings.benchmark.output_tokens

    windows = [window for window in space.parameters["window"].domain if window is not None]

    assert windows
    assert all(isinstance(window, int) and window < longest for window in windows)


def test_the_kimi_study_waits_three_loads_of_615_seconds_and_says_how_answers_are_sampled():
    settings = load("kimi-k26-8gpu")

    assert settings.server.ready_timeout_s == 3 * 615
    assert settings.deployment.kind == "systemd"
    assert settings.deployment.host is None
    for sampling in (settings.benchmark.sampling, settings.evaluation.sampling):
        assert (sampling.temperature, sampling.top_p, sampling.thinking) == (0.6, 0.95, False)


@pytest.mark.parametrize("name", SPACES)
def test_a_packaged_search_space_is_called_as_its_file_and_its_arms_take_in_everything(name):
    space = load_search_space(name)

    assert space.name == name
    assert load_search_space_file(name).summary
    arms = {space.arm(configuration) for configuration in space.configurations}
    assert None not in arms
    assert {"plain", "chain"} <= arms


@pytest.mark.parametrize("name", [name for name in SPACES if name != "ddtree"])
def test_accept_thresholds_are_stated_as_lossless_in_every_configuration(name):
    space = load_search_space(name)
    if not any(derived.startswith("accept_threshold") for derived in space.derived):
        assert name == "dflash_tree"  # it verifies greedily, where the thresholds do nothing
        return

    for configuration in space.configurations:
        arguments = space.render_flags(configuration).arguments
        for flag in ("single", "acc"):
            at = arguments.index(f"--speculative-accept-threshold-{flag}")
            assert arguments[at + 1] == "1"


@pytest.mark.parametrize("block", [4, 8, 16])
def test_a_clipped_width_merges_exactly_the_trees_that_keep_the_same_tokens(block):
    """Case 34: flags with fewer degrees of freedom than they seem to have."""
    space = with_block(block, "clipped-width", "chain-within-block")
    unmerged = with_block(block)

    def effect(budget: int, topk: int) -> tuple[int, int]:
        depth = block - 1
        return (budget, 0) if budget <= depth else (budget, min(max(budget // depth + 1, 2), topk))

    merged = {
        (item["budget"], item["topk"], item["window"]): space.key(space.canonicalise(item))
        for item in unmerged.configurations
    }
    for (one, first), (other, second) in itertools.pairwise(merged.items()):
        same = effect(int(str(one[0])), int(str(one[1]))) == effect(int(str(other[0])), int(str(other[1])))
        is_plain = one[0] == other[0] == 0
        assert (first == second) == (is_plain or (same and one[2] == other[2]))


def with_block(block: int, *proofs: str) -> SearchSpace:
    file = load_search_space_file("ddtree_sglang")
    derived = {**file.derived, "block": file.derived["block"].model_copy(update={"value": block})}
    return SearchSpace(file.model_copy(update={"derived": derived}), frozenset(proofs))
