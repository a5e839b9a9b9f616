"""The profile boot: let a server log its drafts once, and store the accept lengths that a replay tells from them.

Nothing of it is a speed: logging slows decoding. It teaches the sampler and decides nothing, so a server that fails in it
ends the profile and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autotune.errors import MeasurementError, ServerError
from autotune.events import Activity
from autotune.replay.evidence import TABLES, dump_tables
from autotune.replay.tree_shape import find_windows
from autotune.servers.base import LaunchSpec
from autotune.study import Study, Suggestion
from autotune.trial import TrialRecord, TrialState
from autotune.tuner.begun_trial import BegunTrial, Rig, say_briefly

NOT_LOGGED: Final = (
    "no profile boot: this server does not log drafts, or the rule of its trees is not known, so accept lengths are "
    "learned from trials alone"
)

_DRAFT_LOG: Final = "drafts.jsonl"
"""Log of a profile in the study's folder; removed once it is replayed, because it is large."""


_EXCUSE: Final = "autotune draft hook steps aside: "
"""How the hook begins to say that it logs nothing any more."""


def find_launch(rig: Rig, suggestion: Suggestion) -> LaunchSpec | None:
    """Return how the server is started that logs its drafts; ``None`` where it cannot, or nobody reads the log.

    Raises:
        UnitUnsupportedError: the server could, but not on this host; the message says why.
        HostError: the host cannot be asked.
    """
    if rig.meters.open_profile is None:
        return None
    place = rig.deployment.find_draft_log(log_path_of(rig.study))
    return rig.dialect.render_profile(suggestion.configuration, place, find_windows(rig.study.space))


def log_path_of(study: Study) -> Path:
    """Return where drafts are logged."""
    return study.directory.absolute() / _DRAFT_LOG


class ProfileRun(BegunTrial):
    """Runs the profile of a study.

    Args:
        rig: what it works with.
        number: the trial.
        suggestion: what to boot.
        launch: of a server that logs its drafts, as :func:`find_launch` has found it.
    """

    def __init__(self, rig: Rig, number: int, suggestion: Suggestion, launch: LaunchSpec) -> None:
        super().__init__(rig, number, suggestion)
        self._launch = launch

    def run(self) -> TrialRecord:
        """Run the profile to its end; one that fails for whatever reason of the server's is over.

        Raises:
            HostError: the host is at fault; the trial is still open.
        """
        try:
            with self.blaming_the_disk():
                return self._run()
        except (ServerError, MeasurementError) as error:
            self.explain_silence(error)
            self.record_log(error)
            why = self._find_excuse() or "the profile failed"
            self._watch.on_note(f"accept lengths are learned from trials alone: {why}")
            return self._study.fail(self._number, say_briefly(error))
        finally:
            log_path_of(self._study).unlink(missing_ok=True)

    def _run(self) -> TrialRecord:
        """Boot, ask, replay, store."""
        open_profile = self._meters.open_profile
        if open_profile is None:
            raise ValueError("nobody reads the log")
        self._folder.mkdir(parents=True, exist_ok=True)
        log_path_of(self._study).unlink(missing_ok=True)
        self._study.set_state(self._number, TrialState.DEPLOYING)
        booted = self._booter.bring_up(
            self._configuration, self._folder / "server.log", may_reuse=False, launch=self._launch
        )
        self._study.record_boot(self._number, booted.record)
        self._study.set_state(self._number, TrialState.MEASURING)
        self._watch.on_activity(Activity.PROFILING)
        profile = open_profile(self._configuration, self._folder / "requests.jsonl", log_path_of(self._study))
        with self._interruption.interruptible(self._watch.time_left_s()):
            try:
                tables = profile.run()
            except MeasurementError as error:
                self.check_alive(error)
                raise
        if not tables:
            raise MeasurementError(
                "the log of drafts tells no accept length",
                where=str(log_path_of(self._study)),
                hint="see the server's log",
            )
        self._study.record_attributes(self._number, {TABLES: dump_tables(tables)})
        lengths = [length for table in tables for row in table.accept_lengths for length in row]
        self._watch.on_note(
            f"drafts of {tables[0].texts} answers replayed: {len(lengths)} trees accept "
            f"{min(lengths):.2f} to {max(lengths):.2f} tokens a step"
        )
        return self._study.complete_profile(self._number)

    def _find_excuse(self) -> str | None:
        """Return what the draft hook has said in the server's log; ``None`` where it has said nothing."""
        lines = self._rig.deployment.read_log()
        return next((line[line.index(_EXCUSE) :] for line in lines if _EXCUSE in line), None)
