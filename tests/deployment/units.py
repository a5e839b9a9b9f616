"""Services for tests of pure functions: what ``read_unit`` would say of a unit's text on a host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.deployment.systemd_unit import classify_launch
from autotune.deployment.unit import Unit, UnitFile
from autotune.deployment.unit_file import parse_service
from autotune.deployment.wrapped_command import PREFIXES

TUNED = {
    "--speculative-algorithm": True,
    "--speculative-ddtree-budget": True,
    "--speculative-draft-window-size": True,
    "--page-size": True,
    "--enable-x": False,
}


def make_unit(service: str, *, script: str | None = None, **changes: Any) -> Unit:
    """Return the unit with these lines in its ``[Service]`` section; specifiers are not resolved."""
    text = f"[Unit]\nDefaultDependencies=no\n[Service]\n{service}\n"
    parsed = parse_service(text)
    words = parsed.commands[0]
    prefix = words[0].text[: len(words[0].text) - len(words[0].text.lstrip(PREFIXES))]
    rest = words[2:] if "@" in prefix else words[1:]
    argv = (words[0].text.lstrip(PREFIXES), *(word.text for word in rest))
    unit = Unit(
        name="x.service",
        files=(UnitFile("/etc/systemd/system/x.service", text, 0o644),),
        argv=argv,
        words=words,
        environment=parsed.environment,
        unset_environment=(),
        environment_files=(),
        launch_kind=classify_launch(argv, script),
        type="simple",
        restart="always",
        kill_mode="control-group",
        user="root",
        timeout_start_s=90.0,
        timeout_stop_s=90.0,
        is_enabled=True,
        needs_reload=False,
        expands_variables=":" not in prefix,
        script=None if script is None else UnitFile("/opt/start.sh", script, 0o755),
    )
    return replace(unit, **changes)
