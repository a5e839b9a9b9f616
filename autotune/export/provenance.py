"""Where a figure comes from: study, trial, server, flags and versions, without secrets (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.export.findings import Findings
from autotune.export.proof import judge_proof
from autotune.export.wording import (
    render_figure,
    render_gain_with_interval,
    render_share,
)
from autotune.trial import Configuration, TrialKind, TrialRecord

HIDDEN = "(hidden)"

_SECRET_WORDS = frozenset(
    {"APIKEY", "AUTH", "BEARER", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSWD", "PASSWORD", "PWD", "SECRET", "TOKEN"}
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_NAMED_VALUE = re.compile(
    r"""(?P<name>(?<![\w-])-{0,2}[A-Za-z][\w-]*)(?P<between>=|['"]:[ ]|(?<=\w)[ ]+)(?P<value>'[^']*'|"[^"]*"|[^\s'",;)}]+)"""
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What somebody needs who finds a drop-in next year.

    Attributes:
        study: name of the study.
        trial: the trial that was exported.
        baseline: what it is compared with; ``None`` when it was never measured.
        reason: why this trial.
        describe: writes a configuration for people, as its search space does.
        autotune_version: of this package.
        written_at: UTC, ISO 8601.
    """

    study: str
    trial: TrialRecord
    baseline: TrialRecord | None
    reason: str
    describe: Callable[[Configuration], str]
    autotune_version: str
    written_at: str


def render_header(provenance: Provenance, findings: Findings) -> list[str]:
    """Return the comment lines at the top of a drop-in."""
    trial = provenance.trial
    is_baseline = trial.kind is TrialKind.BASELINE
    gains = [
        "" if is_baseline else f", {render_gain_with_interval(found.get(trial.number))} against the baseline"
        for found in (findings.gains_c1, findings.gains_c32)
    ]
    proof = judge_proof(trial, findings)
    lines = [
        f"Written by autotune {provenance.autotune_version} on {provenance.written_at}",
        f'from trial {trial.number} of study "{provenance.study}", measured {trial.started_at or "at an unknown time"}.',
        f"Configuration: {provenance.describe(trial.configuration)}{' (the baseline)' if is_baseline else ''}",
        f"Why this one:  {provenance.reason}",
        *([] if proof is None else [f"Gain:          {proof}"]),
        f"C=1:    {render_figure(trial.objectives.tokens_per_s_c1)} tokens/s{gains[0]}",
        f"C=32:   {render_figure(trial.objectives.tokens_per_s_c32)} tokens/s{gains[1]}",
        f"pass@1: {render_share(trial.objectives.pass_at_1)}",
        "Intervals are 95%: of speeds within one boot, of gains between boots too.",
    ]
    if provenance.baseline is not None and not is_baseline:
        lines.append(f"Baseline: {provenance.describe(provenance.baseline.configuration)}")
    if trial.boot is not None and trial.boot.version is not None:
        lines.append(f"Server version: {trial.boot.version}")
    return lines


def is_secret(name: str) -> bool:
    """True when a variable or flag looks by its name as if its value were secret.

    What names a variable that holds a secret is none.

    >>> [is_secret(name) for name in ("HF_TOKEN", "--api-key", "MAX_TOKENS", "--tokenizer-path", "--api-key-variable")]
    [True, True, False, False, False]
    """
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return words[-1] != "VARIABLE" and any(word in _SECRET_WORDS for word in words)


def hide_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables as they may be shown.

    >>> hide_secrets({"HF_TOKEN": "abc", "URL": "http://me:pw@host/", "N": "1"})
    {'HF_TOKEN': '(hidden)', 'URL': 'http://(hidden)@host/', 'N': '1'}
    """
    return {
        name: HIDDEN if is_secret(name) and value else _USERINFO.sub(HIDDEN, value)
        for name, value in environment.items()
    }


def hide_secret_arguments(command: Sequence[str]) -> list[str]:
    """Return an argument vector as it may be shown.

    >>> hide_secret_arguments(["serve", "--api-key", "abc", "--admin-key=x", "--port", "1"])
    ['serve', '--api-key', '(hidden)', '--admin-key=(hidden)', '--port', '1']
    """
    shown: list[str] = []
    is_value = False
    for word in command:
        name, separator, _ = word.partition("=")
        is_flag = word.startswith("-")
        if is_value and not is_flag:
            shown.append(HIDDEN)
        elif is_flag and separator and is_secret(name):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(_USERINFO.sub(HIDDEN, word))
        is_value = is_flag and not separator and is_secret(name)
    return shown


def hide_secrets_in(text: str) -> str:
    """Return a sentence, a command or a line of a log as it may be shown.

    >>> hide_secrets_in("exec serve --api-key abc --port 1; HF_TOKEN='a b' x {'api_key': 'abc', 'port': 1}")
    "exec serve --api-key (hidden) --port 1; HF_TOKEN=(hidden) x {'api_key': (hidden), 'port': 1}"
    >>> hide_secrets_in("the token is wrong: see --api-key")
    'the token is wrong: see --api-key'
    """

    def hide(found: re.Match[str]) -> str:
        name, between, value = found["name"], found["between"], found["value"]
        is_value = not between.isspace() or (name.startswith("-") and not value.startswith("-"))
        is_hidden = is_value and is_secret(name.replace("_", "-")) and value not in {"None", "''", '""'}
        return f"{name}{between}{HIDDEN}" if is_hidden else found[0]

    shown: list[str] = []
    position = 0
    while (found := _NAMED_VALUE.search(text, position)) is not None:
        replaced = hide(found)
        is_same = replaced == found[0]  # then its value may be the name of the next
        shown.append(text[position : found.start()] + (found["name"] if is_same else replaced))
        position = found.end("name") if is_same else found.end()
    return _USERINFO.sub(HIDDEN, "".join([*shown, text[position:]]))
