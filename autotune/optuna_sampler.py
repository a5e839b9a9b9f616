"""The grey-box model as a sampler of Optuna: for a loop of one's own on a stored study, or on any study of a search space.

A trial that ``autotune`` stored is read with all that it measured. Any other trial of the study is read by its values: tokens/s
at C=1 and at C=32, and pass@1 where the study has a third objective; the accept length is taken from the user attribute
``accept_length`` where it is there. Optuna's pruned trials teach which configurations not to propose again, and no speed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from autotune.errors import UserError
from autotune.objectives import CONCURRENCIES, expected_cells
from autotune.sampling.choice import make_sampler
from autotune.sampling.stock import distributions_of
from autotune.search_space import SearchSpace, search_space_of
from autotune.settings import SamplerSettings, StudySettings
from autotune.settings_difference import load_settings_dump
from autotune.suggestion import read_history
from autotune.trial import Cell, CellMeasurement, Figure, Objectives, TrialKind, TrialRecord, TrialState
from autotune.trial_attributes import load_trial

ACCEPT_LENGTH: Final = "accept_length"
"""User attribute of a trial: tokens a step over its prompts."""

_STATES: Final = {
    OptunaState.COMPLETE: TrialState.COMPLETE,
    OptunaState.PRUNED: TrialState.PRUNED,
    OptunaState.FAIL: TrialState.FAILED,
    OptunaState.RUNNING: TrialState.MEASURING,
    OptunaState.WAITING: TrialState.SUGGESTED,
}


class GreyboxOptunaSampler(BaseSampler):
    """Proposes what the grey-box model expects most of; the same study and seed give the same proposals.

    The first proposal of a study without a measured baseline is the baseline, because speeds are relative to it. Parameters
    that are not of the search space are drawn at random.

    Args:
        settings: of the study, its search space and baseline; ``None`` are those that ``autotune`` stored with the study.
        seed: of all chance; ``None`` is that of the settings.
    """

    def __init__(self, settings: StudySettings | None = None, seed: int | None = None) -> None:
        self._settings = settings
        self._space: SearchSpace | None = None
        self._seed = seed
        self._sampler = make_sampler(SamplerSettings(name="greybox"))
        self._independent = RandomSampler(seed=seed)

    def find_distributions(self, study: optuna.Study) -> dict[str, BaseDistribution]:
        """Return what ``study.ask`` is to be called with, so that it suggests every parameter at once.

        Raises:
            UserError: the study is none that this sampler can propose for.
        """
        return distributions_of(self._open(study)[1])

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002  # Optuna's signature
        """Return the distributions of the search space: all of its parameters are proposed together.

        Raises:
            UserError: the study is none that this sampler can propose for.
        """
        return self.find_distributions(study)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],  # noqa: ARG002  # Optuna's signature
    ) -> dict[str, Any]:
        """Return the parameters of the configuration that is proposed.

        Raises:
            UserError: the study is none that this sampler can propose for.
        """
        settings, space = self._open(study)
        known = [
            _read(other, settings, space)
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number and (other.params or "state" in other.user_attrs)
        ]
        history = read_history(known, settings, space)
        if history.baseline is None:
            return dict(space.resolve(settings.baseline))
        pending = [other.configuration for other in known if not other.state.is_final]
        rng = random.Random(f"{self._find_seed(settings)}:{trial.number}")  # noqa: S311  # chance, not secrecy
        return dict(self._sampler.propose(history, space, pending, rng))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value of a parameter that the search space does not have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Draw parameters that the search space does not have from another seed; proposals depend on the study alone."""
        self._independent.reseed_rng()

    def _find_seed(self, settings: StudySettings) -> int:
        return settings.seed if self._seed is None else self._seed

    def _open(self, study: optuna.Study) -> tuple[StudySettings, SearchSpace]:
        if len(study.directions) not in (2, 3) or set(study.directions) != {StudyDirection.MAXIMIZE}:
            raise UserError(
                f"the study {study.study_name!r} maximises something else than tokens/s at C=1, tokens/s at C=32 and pass@1",
                hint='make it with directions=["maximize", "maximize"], or three of them',
            )
        if self._settings is None:
            stored = study.user_attrs.get("settings")
            if stored is None:
                raise UserError(
                    f"the study {study.study_name!r} was not made by autotune, so its search space is not known",
                    hint="pass settings=load_settings(path) of a study file",
                )
            self._settings = load_settings_dump(stored, study.study_name)
        if self._space is None:
            self._space = search_space_of(self._settings)
        return self._settings, self._space


def _read(trial: FrozenTrial, settings: StudySettings, space: SearchSpace) -> TrialRecord:
    """Return a trial as ours, also one that somebody else has made."""
    if "state" in trial.user_attrs:
        return load_trial(trial.number, trial.user_attrs)
    configuration = space.resolve({name: trial.params[name] for name in space.parameters if name in trial.params})
    is_baseline = space.key(configuration) == space.key(space.resolve(settings.baseline))
    state = _STATES[trial.state]
    if state is TrialState.COMPLETE and any(value > 0 for value in trial.constraints.values()):
        state = TrialState.INFEASIBLE
    kind = TrialKind.BASELINE if is_baseline else TrialKind.SEARCH
    if trial.values and not _are_measurements(trial.values):
        state = TrialState.INFEASIBLE if state is TrialState.INFEASIBLE else TrialState.FAILED
        return TrialRecord(trial.number, kind, state, configuration)
    record = TrialRecord(trial.number, kind, state, configuration)
    if not trial.values:
        return record
    return _with_values(record, trial.values, trial.user_attrs, settings)


def _are_measurements(values: Sequence[float]) -> bool:
    """Whether both speeds are above 0 and nothing is infinite: Optuna takes other values too, but nothing runs like that."""
    return all(math.isfinite(value) for value in values) and all(value > 0 for value in values[: len(CONCURRENCIES)])


def _with_values(
    record: TrialRecord, values: Sequence[float], attributes: Mapping[str, Any], settings: StudySettings
) -> TrialRecord:
    """Return a trial with its values as figures: the speed of a concurrency stands for each of its cells."""
    speeds = dict(zip(CONCURRENCIES, values, strict=False))
    length = attributes.get(ACCEPT_LENGTH)
    figure = Figure(float(length), 1) if isinstance(length, int | float) and 1 <= length < math.inf else None
    cells = tuple(
        _make_cell(cell, speeds[cell.concurrency], figure)
        for cell in expected_cells(settings)
        if cell.concurrency in speeds
    )
    c1, c32, *rest = (Figure(value, 1) for value in values)
    return TrialRecord(
        record.number,
        record.kind,
        record.state,
        record.configuration,
        cells=cells,
        objectives=Objectives(c1, c32, rest[0] if rest else None),
    )


def _make_cell(cell: Cell, speed: float, accept_length: Figure | None) -> CellMeasurement:
    figure = Figure(speed, 1)
    return CellMeasurement(
        cell=cell,
        requests=1,
        succeeded=1,
        output_tokens=0,
        prompt_tokens=0,
        cached_tokens=None,
        decode_tokens_per_s=figure,
        total_tokens_per_s=figure,
        ttft_s=None,
        tpot_s=None,
        accept_length=accept_length,
        per_prompt_log_speed={},
        duration_s=0.0,
    )
