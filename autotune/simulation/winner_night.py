"""Does a night name a winner where there is none, and find one where there is?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.export.findings import find
from autotune.export.proof import judge_proof
from autotune.search_space import SearchSpace
from autotune.simulation.compared_night import find_version, know
from autotune.simulation.method import Method
from autotune.simulation.night import simulate_night
from autotune.simulation.night_score import NightKey
from autotune.simulation.noise import NoiseSettings
from autotune.simulation.truth import Truth
from autotune.study_view import StudyView
from autotune.trial import TrialKind

_NOTHING = 1e-6
"""A true gain below this is none."""


@dataclass(frozen=True, slots=True)
class WinnerNight:
    """A night with a confirmation at its end.

    Attributes:
        method: who proposes.
        surface: name of the surface.
        seed: of sampler and noise.
        trials: counted trials.
        noise: of its figures.
        confirmation_boots: at most, after the search; 0 for no confirmation.
    """

    method: Method
    surface: str
    seed: int
    trials: int
    noise: NoiseSettings
    confirmation_boots: int

    @property
    def key(self) -> NightKey:
        """What its score is kept under."""
        version = find_version(self.surface, self.noise, self.confirmation_boots)
        return NightKey(self.method.name, self.surface, version, self.seed, self.trials)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a study recommends.

    Attributes:
        gain: true gain of it over the baseline by the study's rule; ``None`` where the baseline is recommended.
        is_proven: the study calls the gain proven, or confirmed.
    """

    gain: float | None
    is_proven: bool


@dataclass(frozen=True, slots=True)
class WinnerScore:
    """What one night claimed.

    Attributes:
        key: which night.
        searched: after the search.
        confirmed: after the confirmation; the same as ``searched`` where there was none.
        boots: of the confirmation.
        best_gain: the largest true gain that can be recommended; 0 where there is none.
    """

    key: NightKey
    searched: Claim
    confirmed: Claim
    boots: int
    best_gain: float


def play_winner_night(night: WinnerNight) -> WinnerScore:
    """Play a night on the real trial loop, with its confirmation, and compare what it claims with the truth."""
    surface, truth = know(night.surface)
    view = simulate_night(
        surface,
        night.method.make_sampler(surface, night.trials),
        night.seed,
        night.trials,
        noise=night.noise,
        evidence=night.method.find_evidence(surface, night.seed),
        confirm_boots=night.confirmation_boots,
    ).view
    searched = tuple(trial for trial in view.trials if trial.kind is not TrialKind.CONFIRMATION)
    return WinnerScore(
        key=night.key,
        searched=_claim(replace(view, trials=searched), surface.space, truth),
        confirmed=_claim(view, surface.space, truth),
        boots=len(view.trials) - len(searched),
        best_gain=truth.best_merit - 1,
    )


def _claim(view: StudyView, space: SearchSpace, truth: Truth) -> Claim:
    """Return what a study recommends, as its report would."""
    findings = find(view)
    if findings.choice is None or findings.is_baseline_recommended:
        return Claim(None, is_proven=False)
    trial = findings.choice.trial
    proof = judge_proof(trial, findings)
    gain = truth.merit(space.key(trial.configuration), view.settings.export.rule) - 1
    return Claim(gain, is_proven=proof is not None and proof.is_proven)


@dataclass(frozen=True, slots=True)
class WinnerSummary:
    """What many nights claimed.

    Attributes:
        nights: how many.
        named: nights that recommended something else than the baseline after the search.
        found: nights in which that truly has at least half of the largest gain there is.
        proven: nights whose report called its gain proven after the search alone.
        false_proven: those of them whose true gain is none.
        confirmed: nights whose confirmation confirmed a leader.
        false_confirmed: those of them whose true gain is none.
        boots: of a confirmation, on average over nights that had one; ``None`` without any.
    """

    nights: int
    named: int
    found: int
    proven: int
    false_proven: int
    confirmed: int
    false_confirmed: int
    boots: float | None


def summarise_winners(scores: Sequence[WinnerScore]) -> WinnerSummary:
    """Count what nights claimed."""
    booted = [score.boots for score in scores if score.boots]
    proven = [score.searched for score in scores if score.searched.is_proven]
    confirmed = [score.confirmed for score in scores if score.boots and score.confirmed.is_proven]
    return WinnerSummary(
        nights=len(scores),
        named=sum(score.searched.gain is not None for score in scores),
        found=sum(
            score.searched.gain is not None
            and score.best_gain > _NOTHING
            and score.searched.gain >= score.best_gain / 2
            for score in scores
        ),
        proven=len(proven),
        false_proven=sum(map(_is_false, proven)),
        confirmed=len(confirmed),
        false_confirmed=sum(map(_is_false, confirmed)),
        boots=sum(booted) / len(booted) if booted else None,
    )


def _is_false(claim: Claim) -> bool:
    return claim.gain is None or claim.gain <= _NOTHING
