from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autotune.packaged import list_packaged
from autotune.sampling.base import History
from autotune.sampling.greybox import sampler as sampler_module
from autotune.sampling.greybox.sampler import FEWEST_TRIALS, GreyboxSampler
from autotune.search_space import SearchSpace, load_search_space
from autotune.trial import Configuration, TrialKind, TrialState
from tests.records import make_settings
from tests.sampling.greybox.small_surface import SPACE, Server, log_speeds, whole

BEST_MERIT = max(sum(log_speeds(configuration)) / 2 for configuration in SPACE.configurations)


def propose(server: Server, pending: tuple[Configuration, ...] = (), seed: int = 1) -> Configuration:
    return GreyboxSampler().propose(server.history(), SPACE, pending, random.Random(seed))  # noqa: S311


def play(server: Server, trials: int) -> GreyboxSampler:
    """A night: the sampler proposes, the server boots."""
    sampler = GreyboxSampler()
    for number in range(trials):
        proposal = sampler.propose(server.history(), SPACE, (), random.Random(number))  # noqa: S311
        server.boot(proposal)
    return sampler


def test_it_begins_with_each_arm_and_two_sizes_of_tree():
    server = Server()
    play(server, 3)
    asked = [trial.configuration for trial in server.trials[1:]]

    assert {SPACE.arm(configuration) for configuration in asked} == {"plain", "chain", "tree"}
    assert all(configuration["window"] is None for configuration in asked)


def test_arms_that_the_user_listed_are_not_asked_again():
    server = Server()
    server.boot_all(["budget=0", "budget=8,topk=1"])

    assert SPACE.arm(propose(server)) == "tree"


def test_nothing_is_proposed_twice_and_the_best_is_found_within_twenty_boots():
    server = Server()
    play(server, 20)
    keys = [SPACE.key(trial.configuration) for trial in server.trials]

    assert len(set(keys)) == len(keys)
    found = max(sum(log_speeds(trial.configuration)) / 2 for trial in server.trials)
    assert found > BEST_MERIT - 0.01


def test_noise_does_not_keep_it_from_a_good_configuration():
    found = []
    for seed in range(2):
        server = Server(noise=0.02, seed=seed)
        play(server, 12)
        found.append(max(sum(log_speeds(trial.configuration)) / 2 for trial in server.trials))

    assert np.mean(found) > BEST_MERIT - 0.03


def test_the_same_history_and_chance_give_the_same_proposal_whatever_was_asked_before():
    server = Server(noise=0.02)
    sampler = play(server, 7)

    kept = sampler.propose(server.history(), SPACE, (), random.Random(5))  # noqa: S311

    assert kept == propose(server, seed=5)


def test_what_is_being_measured_is_not_proposed_again():
    server = Server(noise=0.02)
    play(server, 6)
    first = propose(server)
    second = propose(server, pending=(first,))

    assert SPACE.key(second) not in {SPACE.key(first), *(SPACE.key(trial.configuration) for trial in server.trials)}


def test_it_learns_where_memory_ends_although_the_best_lies_at_the_edge():
    def fits(configuration: Configuration) -> bool:
        return whole(configuration, "budget") * whole(configuration, "topk") <= 100

    server = Server(fits=fits, noise=0.01)
    play(server, 16)
    states = [trial.state for trial in server.trials]

    assert states.count(TrialState.INFEASIBLE) <= 4
    assert TrialState.INFEASIBLE not in states[-5:]
    best = max(sum(log_speeds(item)) / 2 for item in SPACE.configurations if fits(item))
    found = max(sum(log_speeds(trial.configuration)) / 2 for trial in server.trials if trial.cells)
    assert found > best - 0.01


def test_a_study_without_any_history_is_asked_as_well():
    empty = History(make_settings(), (), None)

    assert GreyboxSampler().propose(empty, SPACE, (), random.Random(1)) in SPACE.configurations  # noqa: S311


@pytest.mark.parametrize("name", list_packaged("search_spaces"))
def test_every_parameter_of_every_space_is_searched(name: str):
    """The speeds depend on a number made of every parameter: the sampler must move all of them."""
    space = load_search_space(name)
    columns = list(space.parameters)

    def speeds(configuration: Configuration) -> tuple[float, float]:
        places = [
            list(space.parameters[column].domain).index(configuration[column])  # type: ignore[arg-type]
            / max(len(space.parameters[column].domain) - 1, 1)
            for column in columns
        ]
        return 0.3 * sum(places), 0.2 * sum(places)

    settings = make_settings(search_space=name, baseline=dict(_default(space)))
    server = Server(settings=settings, space=space, speeds=speeds, tells_accept_length=False)
    sampler = GreyboxSampler()
    for number in range(12):
        server.boot(sampler.propose(server.history(), space, (), random.Random(number)))  # noqa: S311

    best = max(sum(speeds(configuration)) for configuration in space.configurations)
    assert max(sum(speeds(trial.configuration)) for trial in server.trials) > 0.85 * best


def _default(space: SearchSpace) -> dict[str, int | str]:
    return {name: "none" if value is None else value for name, value in space.resolve({}).items()}  # type: ignore[misc]


def test_a_large_space_is_sampled_and_its_best_looked_around(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler_module, "_SHORTLIST", 150)
    monkeypatch.setattr(sampler_module, "_NEAR", 40)
    scored: list[int] = []
    original = sampler_module._score

    def count(standing, model, history, busy, rows):
        scored.append(len(rows))
        return original(standing, model, history, busy, rows)

    monkeypatch.setattr(sampler_module, "_score", count)
    server = Server()
    play(server, 16)

    assert max(scored) <= 8 * 40
    assert max(sum(log_speeds(trial.configuration)) / 2 for trial in server.trials) > BEST_MERIT - 0.02


def test_a_flat_surface_is_called_exhausted_and_the_sentence_says_why():
    server = Server(noise=0.01, speeds=lambda _configuration: (4.0, 7.0), tells_accept_length=False)
    sampler = play(server, 32)

    reason = sampler.explain_exhaustion(server.history(), SPACE)

    assert reason is not None
    assert "nothing is left to win" in reason
    assert "balanced" in reason


def test_a_study_is_never_called_exhausted_early_nor_while_something_is_to_be_won():
    flat = Server(speeds=lambda _configuration: (4.0, 7.0), tells_accept_length=False)
    sampler = GreyboxSampler()
    for number in range(FEWEST_TRIALS - 1):
        flat.boot(sampler.propose(flat.history(), SPACE, (), random.Random(number)))  # noqa: S311
        assert sampler.explain_exhaustion(flat.history(), SPACE) is None
    server = Server(noise=0.01)
    server.boot_all([f"budget={budget},topk=2,window=32" for budget in range(40, 49)])

    assert GreyboxSampler().explain_exhaustion(server.history(), SPACE) is None


def test_a_configuration_that_the_server_turns_into_another_one_is_not_proposed_again():
    server = Server()
    play(server, 6)
    proposal = propose(server)
    effective = server.boot(SPACE.parse("budget=3,topk=3"))
    server.trials[-1] = replace(effective, attributes={"asked": [[name, value] for name, value in proposal.items()]})

    assert propose(server) != proposal


def test_what_failed_twice_for_unknown_reasons_is_left_alone():
    server = Server()
    play(server, 6)
    proposal = propose(server)
    for _ in range(2):
        trial = server.boot(proposal)
        server.trials[-1] = replace(trial, state=TrialState.FAILED, cells=(), kind=TrialKind.SEARCH)

    assert propose(server) != proposal
