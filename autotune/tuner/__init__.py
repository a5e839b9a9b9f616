"""The trial loop: one study on one host until a limit is reached, and the host as it was afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from autotune.api_key import read_api_key
from autotune.apply.opening import check_nothing_open
from autotune.clock import SystemClock
from autotune.confirmation.plan import Plan
from autotune.deployment.base import Deployment
from autotune.deployment.host_record import RECORD_NAME
from autotune.deployment.leftovers import Interruptible
from autotune.deployment.local import LocalDeployment
from autotune.deployment.open_host import open_host
from autotune.deployment.readiness import wait_until_ready
from autotune.deployment.systemd import SystemdDeployment
from autotune.errors import RestoreError, ServerError
from autotune.events import Event, Observer
from autotune.measuring_mark import Work, WorkMark
from autotune.search_space import SearchSpace
from autotune.servers.base import ServerDialect
from autotune.servers.sglang import SglangDialect, can_log_drafts, wants_draft_hook
from autotune.settings import StudySettings
from autotune.study import Study
from autotune.trial import Configuration
from autotune.tuner.interruption import Interruption
from autotune.tuner.limits import Limits
from autotune.tuner.meters import Meters
from autotune.tuner.night import Night, NightOutcome

__all__ = ["Limits", "NightOutcome", "confirm", "open_deployment", "open_dialect", "restore", "run"]

STUDIES: Final = Path("studies")
"""Where studies live unless somebody says otherwise."""


def run(
    settings: StudySettings,
    limits: Limits,
    observer: Observer | None = None,
    *,
    directory: Path | None = None,
    drain: bool = False,
) -> NightOutcome:
    """Go on with a study, or begin it, until a limit is reached.

    Must be called on the main thread: Ctrl-C, SIGTERM and SIGHUP end the study and restore the host first.

    Args:
        settings: the study.
        limits: when to end.
        observer: told everything, on this thread.
        directory: the study's folder; default: ``studies/NAME`` below the working folder.
        drain: stop a server although requests of others are in flight; it finishes them first.

    Raises:
        AutotuneError: the study cannot begin or go on; the host is as it was, or the error says what is left to do.
    """
    folder = (directory or STUDIES / settings.name).absolute()
    with WorkMark(Work.MEASURING), Interruption() as interruption, Study.open(settings, folder) as study:
        return open_night(study, limits, observer or _ignore, interruption, drain=drain).run()


def confirm(
    settings: StudySettings,
    find_plan: Callable[[Study], Plan],
    limits: Limits,
    observer: Observer | None = None,
    *,
    directory: Path | None = None,
    drain: bool = False,
) -> NightOutcome:
    """Boot leaders of a study against its baseline again, and nothing else; on the main thread, as :func:`run`.

    Args:
        settings: the study, which is there.
        find_plan: returns what is confirmed; may raise to refuse before anything is looked at on the host.
        limits: when to end.
        observer: told everything, on this thread.
        directory: the study's folder; default: ``studies/NAME`` below the working folder.
        drain: stop a server although requests of others are in flight; it finishes them first.

    Raises:
        AutotuneError: the confirmation cannot begin or go on; the host is as it was, or the error says what is left to do.
    """
    folder = (directory or STUDIES / settings.name).absolute()
    with (
        WorkMark(Work.MEASURING),
        Interruption() as interruption,
        Study.open(settings, folder, create=False) as study,
    ):
        plan = find_plan(study)
        return open_night(study, limits, observer or _ignore, interruption, drain=drain).confirm(plan)


def open_night(
    study: Study,
    limits: Limits,
    observer: Observer,
    interruption: Interruption,
    *,
    drain: bool = False,
    kind: type[Night] = Night,
) -> Night:
    """Return a night of a study on the host that it names; the host is not taken yet.

    Args:
        study: open, and held by this process.
        limits: when to end.
        observer: told everything.
        interruption: signals; entered already.
        drain: stop a server although requests of others are in flight; it finishes them first.
        kind: what orders the trials.
    """
    from autotune.benchmark.benchmark import Benchmark  # noqa: PLC0415  # restoring needs no load generator
    from autotune.benchmark.precision import learn_precision  # noqa: PLC0415  # same
    from autotune.evaluation.evaluation import Evaluation  # noqa: PLC0415  # same
    from autotune.tuner.draft_profile import DraftProfile, for_profile  # noqa: PLC0415  # same
    from autotune.tuner.soak_run import for_soak  # noqa: PLC0415  # same
    from autotune.tuner.wakeful_evaluation import WakefulEvaluation  # noqa: PLC0415  # same

    settings, folder = study.settings, study.directory
    dialect = open_dialect(settings, study.space)
    deployment = open_deployment(settings, study.space, dialect, folder, interruption.interruptible)
    api_key = read_api_key(settings.server.api_key_variable)

    def open_benchmark(configuration: Configuration, records: Path) -> Benchmark:
        return Benchmark(
            deployment.url,
            settings.benchmark,
            records,
            speculative=dialect.is_speculative(configuration),
            read_log=deployment.read_log,
            api_key=api_key,
            lengths_path=folder / "prompts.jsonl",
            learn_precision=lambda cell: learn_precision(study.trials(), cell),
            time_left_s=night.time_left_s,
            counts_accepted="block" in study.space.parameters and dialect.is_speculative(configuration),
        )

    def open_evaluation(configuration: Configuration, records: Path) -> WakefulEvaluation:
        evaluation = Evaluation(
            deployment.url,
            settings.evaluation,
            records,
            on_progress=night.on_count,
            speculative=dialect.is_speculative(configuration),
            api_key=api_key,
        )
        return WakefulEvaluation(evaluation)

    def open_profile(_configuration: Configuration, records: Path, log_path: Path) -> DraftProfile:
        benchmark = Benchmark(
            deployment.url,
            for_profile(settings.benchmark),
            records,
            read_log=deployment.read_log,
            api_key=api_key,
            lengths_path=folder / "prompts.jsonl",
        )
        environment = deployment.read_environment()
        return DraftProfile(benchmark, log_path, settings, study.space, deployment.fetch_draft_log, environment)

    def open_soak(configuration: Configuration, records: Path) -> Benchmark:
        return Benchmark(
            deployment.url,
            for_soak(settings.benchmark),
            records,
            speculative=dialect.is_speculative(configuration),
            read_log=deployment.read_log,
            api_key=api_key,
            lengths_path=folder / "prompts.jsonl",
            time_left_s=night.time_left_s,
        )

    night = kind(
        study,
        deployment=deployment,
        dialect=dialect,
        meters=Meters(
            open_benchmark,
            open_evaluation,
            open_profile if can_log_drafts(settings) else None,
            open_soak,
        ),
        limits=limits,
        observer=observer,
        clock=SystemClock(),
        interruption=interruption,
        drain=drain,
    )
    return night


def restore(
    settings: StudySettings,
    space: SearchSpace,
    *,
    directory: Path | None = None,
    on_finding: Callable[[str], None] = lambda _sentence: None,
) -> bool:
    """Finish what a killed command left: end its server, run again what it had stopped, checked; idempotent.

    Args:
        settings: the study.
        space: its search space.
        directory: the study's folder; default: ``studies/NAME`` below the working folder.
        on_finding: told what was found and done, one sentence each.

    Returns:
        True when something had been left to do.

    Raises:
        HostBusyError: a tuner is at work on this host.
        RestoreError: something has to be done by hand.
    """
    folder = (directory or STUDIES / settings.name).absolute()
    dialect = open_dialect(settings, space)
    is_left = (folder / RECORD_NAME).exists()
    with open_deployment(settings, space, dialect, folder, only_restores=True) as deployment:

        def check() -> None:
            try:
                wait_until_ready(
                    dialect,
                    deployment,
                    ready_timeout_s=settings.server.ready_timeout_s,
                    stall_timeout_s=settings.server.stall_timeout_s,
                    clock=SystemClock(),
                )
            except ServerError as error:
                raise RestoreError(
                    f"the server that was found was started again but does not serve: {error.message}",
                    where=deployment.url,
                    hint="see its log; the next command tries again",
                ) from error

        try:
            deployment.restore(check)
        finally:
            for sentence in deployment.findings:
                on_finding(sentence)
        return is_left or bool(deployment.findings)  # a study whose record is gone may have left a lease on its host


def open_dialect(settings: StudySettings, space: SearchSpace) -> ServerDialect:
    """Return the dialect that a study names."""
    return SglangDialect(space, settings.server, has_draft_hook=wants_draft_hook(settings))


def open_deployment(
    settings: StudySettings,
    space: SearchSpace,
    dialect: ServerDialect,
    directory: Path,
    interruptible: Interruptible = nullcontext,
    *,
    only_restores: bool = False,
) -> Deployment:
    """Return the host that a study names, not yet taken.

    Args:
        settings: the study.
        space: its search space.
        dialect: of its server.
        directory: the study's folder.
        interruptible: lets a signal end a wait for a host that restores itself.
        only_restores: take nothing where nothing is left to put back.
    """
    baseline = dialect.render_launch(space.resolve(settings.baseline))
    if settings.deployment.kind == "systemd":
        return SystemdDeployment(
            open_host(settings.deployment),
            settings=settings,
            baseline=baseline,
            tuned_flags=space.tuned_flags,
            folder=directory,
            check=check_nothing_open,
            only_restores=only_restores,
            interruptible=interruptible,
        )
    return LocalDeployment(
        baseline=baseline,
        host=settings.server.host,
        port=settings.server.port,
        folder=directory,
        stop_timeout_s=settings.server.stop_timeout_s,
    )


def _ignore(_event: Event) -> None:
    """Watch nothing."""
