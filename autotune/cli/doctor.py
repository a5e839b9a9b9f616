"""``autotune doctor``: everything that could fail tonight, checked now, nothing changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from autotune.cli import render, study_argument
from autotune.cli.limit_options import choose_limits, limit_options
from autotune.doctor.catalogue import CHECKS, Area
from autotune.doctor.diagnosis import Diagnosis, diagnose
from autotune.doctor.finding import Finding, Level
from autotune.export.wording import clean, render_count
from autotune.settings import StudySettings

_WIDTH = 118
_NAME_WIDTH = 22
_LEVEL_WIDTH = 9


@click.command("doctor")
@study_argument.argument
@limit_options
@study_argument.directory_option
@click.option("--json", "as_json", is_flag=True, help="Print data instead of text.")
@click.pass_context
def command(
    context: click.Context,
    study: str | None,
    trials: int | None,
    duration_s: float | None,
    until: datetime | None,
    study_directory: Path | None,
    as_json: bool,
) -> None:
    """Check everything that a night needs, and change nothing.

    STUDY is as for optimize, and the limits are those of the night that is meant. Each line says what was found, and what
    to do where something is wrong; docs/doctor.md explains every check. Exit code: 0 when a night can begin, warnings or
    not; else the branch of the worst problem, in the order 1, 3, 4, 5, 6, 2.
    """
    settings = study_argument.find_settings(study)
    directory = study_argument.find_directory(settings, study_directory)
    diagnosis = diagnose(settings, directory, choose_limits(trials, duration_s, until))
    if as_json:
        render.show_json(render_document(settings, diagnosis))
    else:
        for line in render_lines(settings, diagnosis):
            render.show(line)
    context.exit(diagnosis.exit_code)


def render_lines(settings: StudySettings, diagnosis: Diagnosis) -> Iterator[str]:
    """Write one block for each area and a verdict."""
    yield f"Study {settings.name}"
    for area in Area:
        findings = [finding for finding in diagnosis.findings if CHECKS[finding.check].area is area]
        if not findings:
            continue
        yield ""
        yield area.value
        shown: set[str] = set()
        for finding in findings:
            reason = finding.judgement.found
            names = [each.check for each in findings if each.judgement == finding.judgement]
            if finding.judgement.level is not Level.SKIPPED or len(names) == 1:
                yield from _render_finding(finding)
            elif reason not in shown:
                shown.add(reason)
                yield from _render_line(
                    Level.SKIPPED, render_count(len(names), "check"), f"{clean(reason)}: {', '.join(names)}"
                )
    yield ""
    yield render_verdict(diagnosis)


def _render_finding(finding: Finding) -> Iterator[str]:
    judgement = finding.judgement
    yield from _render_line(judgement.level, finding.check, clean(judgement.found))
    if judgement.advice is not None:
        indent = " " * (_LEVEL_WIDTH + _NAME_WIDTH + 2)
        yield from textwrap.wrap(
            f"-> {clean(judgement.advice)}",
            _WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}   ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _render_line(level: Level, name: str, found: str) -> Iterator[str]:
    yield from textwrap.wrap(
        found,
        _WIDTH,
        initial_indent=f"  {level.value:<{_LEVEL_WIDTH}}{name:<{_NAME_WIDTH}}",
        subsequent_indent=" " * (_LEVEL_WIDTH + _NAME_WIDTH + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def render_verdict(diagnosis: Diagnosis) -> str:
    """Say in one line whether a night can begin, and when it ends."""
    problems = [finding.check for finding in diagnosis.findings if finding.judgement.level is Level.PROBLEM]
    warnings = diagnosis.count(Level.WARNING)
    parts = [f"{diagnosis.count(Level.OK)} ok", render_count(warnings, "warning")]
    if diagnosis.count(Level.SKIPPED):
        parts.append(f"{diagnosis.count(Level.SKIPPED)} skipped")
    if problems:
        return f"Not ready: {render_count(len(problems), 'problem')} ({', '.join(problems)}); {', '.join(parts)}."
    end = None if diagnosis.expected is None else diagnosis.expected.end
    when = "" if end is None else f" Started now, the server is as it was found at about {end:%a %H:%M}."
    return f"Ready: {', '.join(parts)}.{when}"


def render_document(settings: StudySettings, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return everything as data; unknown is ``None``."""
    expected = diagnosis.expected
    return {
        "study": settings.name,
        "is_ready": diagnosis.exit_code == 0,
        "exit_code": diagnosis.exit_code,
        "findings": [
            {
                "area": CHECKS[finding.check].area.value,
                "check": finding.check,
                "level": finding.judgement.level.value,
                "found": finding.judgement.found,
                "advice": finding.judgement.advice,
                "exit_code": finding.exit_code,
            }
            for finding in diagnosis.findings
        ],
        "expected": None
        if expected is None
        else {
            "load_s": expected.load.seconds,
            "load_source": expected.load.source,
            "measuring_s": expected.measuring.seconds,
            "measuring_source": expected.measuring.source,
            "trials": expected.trials,
            "fitting": expected.fitting,
            "total_s": expected.total_s,
            "end": None if expected.end is None else expected.end.isoformat(timespec="seconds"),
            "latest_start": None
            if expected.latest_start is None
            else expected.latest_start.isoformat(timespec="seconds"),
        },
    }
