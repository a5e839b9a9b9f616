"""``autotune rollback``: take back the last ``export --apply``, or finish what a killed one left."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.apply.put_back import rollback
from autotune.cli import render, service_change, study_argument
from autotune.export.wording import clean


@click.command("rollback")
@study_argument.argument
@study_argument.directory_option
@service_change.options
@click.option("--unit", metavar="NAME", help="Service instead of the study's.")
@click.option(
    "--force",
    is_flag=True,
    help="Also when somebody has changed the drop-in since; a copy of theirs is kept on the host.",
)
def command(
    study: str | None,
    study_directory: Path | None,
    drain: bool,
    host: str | None,
    ssh_config: str | None,
    unit: str | None,
    force: bool,
) -> None:
    """Take back the last `export --apply` of a service.

    What was there before comes back byte for byte, with mode and owner, or its absence. Each further rollback takes back
    one more apply, up to ten. An apply or rollback that was killed is finished first. STUDY as in `autotune status`.
    """
    if study is None and study_directory is None:
        settings = study_argument.open_view(None, None).view.settings
    else:
        settings, _ = study_argument.find_stored(study, study_directory)
    with service_change.opened(settings, host=host, unit=unit, ssh_config=ssh_config) as (site, _):
        render.say(clean(rollback(site, forced=force, drain=drain)))
