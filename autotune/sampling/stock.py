"""What would one of Optuna's own samplers propose?

Each proposal builds a study in memory from the two-objective view of the history and asks a fresh sampler once. So the
proposal depends on the history and the seed alone, never on what this process did before, and the study on disk can keep
its three objectives. Optuna's ``report`` and ``should_prune`` are never called.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, QMCSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.errors import SearchSpaceError
from autotune.objectives import CONSTRAINT_NAMES
from autotune.sampling.base import History
from autotune.sampling.observation import Observation, observe
from autotune.search_space import SearchSpace
from autotune.search_space_file import IntParameter
from autotune.settings import SamplerSettings
from autotune.trial import Configuration

NSGA2_POPULATION: Final = 8
"""Optuna's own population of 50 would make a night of 20 trials random search."""


class StockSampler:
    """One of Optuna's samplers by its short name.

    Args:
        settings: name and number of random trials at the start.
    """

    def __init__(self, settings: SamplerSettings) -> None:
        self._settings = settings

    def propose(
        self, history: History, space: SearchSpace, pending: Sequence[Configuration], rng: random.Random
    ) -> Configuration:
        """Return the canonical form of what the sampler suggests next; the same inputs give the same answer."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        distributions = distributions_of(space)
        seed = rng.randrange(2**31)
        observations = observe(history)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study = optuna.create_study(directions=["maximize", "maximize"], sampler=self._make(history, seed))
            names = _telling_constraints(observations)
            for index, observation in enumerate(observations):
                study.add_trial(_told(index, observation, distributions, names))
            for configuration in pending:
                study.add_trial(_running(configuration, distributions))
            # A quasi-random sequence goes by position: it is replayed up to this proposal.
            asks = len(history.trials) + 1 if self._settings.name == "qmc" else 1
            params: Configuration = {}
            for _ in range(asks):
                params = study.ask(dict(distributions)).params
        try:
            return space.resolve(params)
        except SearchSpaceError:
            # Optuna knows nothing of the rules of a space: what breaks one is replaced, never booted.
            return rng.choice(space.configurations)

    def _make(self, history: History, seed: int) -> BaseSampler:
        startup = self._settings.startup_trials
        match self._settings.name:
            case "gp":
                return GPSampler(seed=seed, n_startup_trials=startup, warn_independent_sampling=False)
            case "tpe":
                return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True)
            case "nsga2":
                return NSGAIISampler(seed=seed, population_size=NSGA2_POPULATION)
            case "qmc":
                # One sequence for the whole study: its scrambling must not change from trial to trial.
                return QMCSampler(seed=history.settings.seed, scramble=True)
            case "random":
                return RandomSampler(seed=seed)
            case "greybox":
                raise ValueError("greybox is none of Optuna's samplers: make it with make_sampler")


def distributions_of(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of a space: flat, because its models see only parameters that every trial has.

    A choice stays categorical: an ordered index searched no better, and the dashboard shows the value itself.
    """
    return {
        name: IntDistribution(parameter.low, parameter.high, step=parameter.step)
        if isinstance(parameter, IntParameter)
        else CategoricalDistribution(parameter.choices)
        for name, parameter in space.parameters.items()
    }


def _telling_constraints(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return the constraints that differ between trials, in their fixed order: one that is always met models nothing."""
    return tuple(
        name for name in CONSTRAINT_NAMES if len({observation.constraints[name] for observation in observations}) > 1
    )


def _told(
    index: int, observation: Observation, distributions: Mapping[str, BaseDistribution], names: Sequence[str]
) -> FrozenTrial:
    """Return one observation as a complete trial: the only kind that every sampler learns from."""
    return create_trial(
        values=list(observation.log_speeds),
        params=dict(observation.configuration),
        distributions=dict(distributions),
        # GPSampler takes constraints by position: always the same ones in the same order.
        constraints={name: observation.constraints[name] for name in names} or None,
        # NSGA-II keeps its generations in the trials it made itself; these are grouped as it would have.
        system_attrs={NSGAIISampler._get_generation_key(): index // NSGA2_POPULATION},  # noqa: SLF001
    )


def _running(configuration: Configuration, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """Return a configuration that is being measured now; samplers that can, stay away from it."""
    return create_trial(state=TrialState.RUNNING, params=dict(configuration), distributions=dict(distributions))
