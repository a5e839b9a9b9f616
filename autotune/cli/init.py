"""``autotune init``: a first study of a live service, written from what the service runs."""

from __future__ import annotations

import re

import click

from autotune.cli import render
from autotune.deployment.open_host import open_host
from autotune.deployment.systemd_unit import validate_unit_name
from autotune.errors import UserError
from autotune.export.wording import clean
from autotune.initial_study.discovery import discover
from autotune.initial_study.study_text import write_study
from autotune.settings import NAME_PATTERN, DeploymentSettings


@click.command("init")
@click.option("--unit", required=True, metavar="UNIT", help="The service, for example sglang-ddtree.service.")
@click.option(
    "--host",
    metavar="HOST",
    help="Where it runs, as ssh understands it: root@gpu1, an alias of ~/.ssh/config. Default: this machine.",
)
@click.option(
    "--ssh-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Read this file instead of ~/.ssh/config.",
)
@click.option("--name", metavar="NAME", help="Name of the study; default: that of the service.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as data instead of a study.")
def command(unit: str, host: str | None, ssh_config: str | None, name: str | None, as_json: bool) -> None:
    """Print a study for a live service, from what the service runs.

    Its search space is limited to what the server supports, its baseline is what runs, and accept thresholds stay at 1.0.
    The study goes to stdout, what was found and what to do first to stderr. Nothing is changed on the host; only where
    the server does not answer, its program is asked for its --help, at low priority and with no GPU in sight.

    \b
    On the GPU host itself, or from another machine:
        autotune init --unit sglang-ddtree.service > studies/kimi.toml
        autotune init --host root@gpu1 --unit sglang-ddtree.service > studies/kimi.toml
    """  # noqa: D301 - click needs the control character itself
    unit = validate_unit_name(unit)
    name = name or re.sub(r"[^A-Za-z0-9._-]+", "-", unit.removesuffix(".service")).strip("-._") or "service"
    if not re.fullmatch(NAME_PATTERN, name):
        raise UserError(
            f"{name!r} is no name of a study", hint="use letters, digits, '.', '_' and '-', a letter or digit first"
        )
    deployment = DeploymentSettings(kind="systemd", unit=unit, host=host, ssh_config=ssh_config)
    with open_host(deployment) as machine:
        facts = discover(machine, deployment)
    if as_json:
        render.show_json(facts.document())
        return
    study = write_study(facts, deployment, name)
    for sentence in (*study.summary, *study.notes):
        render.say(f"note: {clean(sentence)}")
    for sentence in study.warnings:
        render.say(f"warning: {clean(sentence)}")
    render.show(study.text)
    render.say("next: autotune doctor STUDY --until 06:30, where STUDY is the file that this is written to")
