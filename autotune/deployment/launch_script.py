"""Does a start script take the tuned flags from a variable, and from nowhere else? Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Final

from autotune.deployment.shell_tokens import Token, split_commands, split_source
from autotune.deployment.wrapped_command import runs_container
from autotune.errors import UnitUnsupportedError

_SHEBANG: Final = re.compile(r"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?(?P<shell>(?:ba|da|z|k|a)?sh)(?:\s|$)")
_SAFE: Final = re.compile(r"[A-Za-z0-9_./:=,@+%^-]+")


def is_shell_script(text: str) -> bool:
    r"""Whether a file is a script of a shell, by its first line.

    >>> is_shell_script("#!/usr/bin/env bash\n"), is_shell_script("#!/usr/bin/python3\n")
    (True, False)
    """
    return _SHEBANG.match(text.partition("\n")[0]) is not None


def join_arguments(arguments: Sequence[str], variable: str) -> str:
    """Join flags into the value of a variable that a shell splits at its spaces.

    Raises:
        UnitUnsupportedError: a flag would not come out as it went in.
    """
    for argument in arguments:
        if not _SAFE.fullmatch(argument):
            raise UnitUnsupportedError(
                f"{argument!r} cannot reach the server through ${variable}: a shell splits it at spaces and reads quotes "
                "and wildcards in its own way",
                hint="start the server itself in ExecStart=, or choose values without such characters",
            )
    return " ".join(arguments)


def check_script(text: str, path: str, variable: str, tuned: Collection[str]) -> None:
    """See that a script hands a variable to the server in the command behind its last ``exec``.

    Args:
        text: the script.
        path: where it is, for the message.
        variable: name of the variable that holds the flags.
        tuned: flags that the variable is to hold, so that nothing else may.

    Raises:
        UnitUnsupportedError: it does not; the message says what to write.
    """
    shebang = _SHEBANG.match(text.partition("\n")[0])
    if shebang is not None and shebang["shell"] == "zsh":
        raise _refuse("zsh does not split a variable into words", path, variable, "use bash or sh")
    tokens = split_source(text)
    own = re.compile(rf"\$\{{{variable}[-=][^}}]*\}}")
    flags = re.compile("|".join(rf"(?<![\w-]){re.escape(flag)}(?![\w-])" for flag in sorted(tuned)) or r"(?!)")
    for token in tokens:
        found = flags.search(own.sub("", token.text)) if token.is_word else None
        if found:
            raise _refuse(
                f"the script gives {found[0]} itself",
                path,
                variable,
                f"move it: Environment={variable}=... in the unit",
            )
        if token.is_word and re.match(rf"{variable}\+?=", token.raw) and not own.search(token.raw):
            raise _refuse("the script sets the variable itself", path, variable, f"write ${{{variable}-DEFAULT FLAGS}}")
    _check_variable_stays(tokens, path, variable)
    found_commands = [found for found in split_commands(tokens) if found[1]]
    commands = [command for _, command, _ in found_commands]
    starting = [found for found in found_commands if found[1][0].raw == "exec" and len(found[1]) > 1]
    before, words, behind = starting[-1] if starting else ("", (), "")
    if before in {"|", "|&", "("} or behind in {"|", "|&", "&"}:
        raise _refuse(f"systemd watches another process than the server, because of {before}{behind}", path, variable)
    if any(
        runs_container([token.text for token in command]) for command in commands if _runs_server(command, variable)
    ):
        raise _refuse("a container tool gets the flags", path, variable, "run the server itself as the service")
    sources = [source for token in words for source in token.expansions if _expands(source.source, variable)]
    if not sources:
        where = "the command behind its last exec" if starting else "a command behind exec"
        raise _refuse(f"the variable is not expanded in {where}", path, variable)
    if any(source.is_quoted for source in sources):
        raise _refuse("the variable stands in quotes, which makes one word of all flags", path, variable)
    if not any(token.raw == source.source for token in words for source in sources):
        raise _refuse("the variable is glued to other text", path, variable)
    if any(re.match(r"\$\{\w+:[-=](?!\})", source.source) for source in sources):
        raise _refuse(
            "the variable has a default that also replaces an empty value, which means plain decoding",
            path,
            variable,
            f"leave the colon out: ${{{variable}-DEFAULT FLAGS}}",
        )


def _check_variable_stays(tokens: Sequence[Token], path: str, variable: str) -> None:
    """See that nothing in the script changes the variable or how it is split into words."""
    for previous, token in itertools.pairwise((Token(";", 0, is_word=False), *tokens)):
        if token.is_word and token.text == variable and previous.text not in {"export", "-e"}:
            raise _refuse(f"`{previous.text} {variable}` changes the variable", path, variable)
        if not token.is_word and previous.is_word and previous.text.startswith("IFS="):
            raise _refuse("IFS changes how the variable is split into words", path, variable)


def _runs_server(command: Sequence[Token], variable: str) -> bool:
    return any(variable in token.raw for token in command)


def _expands(source: str, variable: str) -> bool:
    return source == f"${variable}" or re.match(rf"\$\{{{variable}(\}}|:?[-=])", source) is not None


def _refuse(problem: str, path: str, variable: str, hint: str | None = None) -> UnitUnsupportedError:
    return UnitUnsupportedError(
        f"the start script does not take its flags from a variable: {problem}",
        where=path,
        hint=hint or f"end it in `exec SERVER ARGUMENTS ${variable}`, unquoted",
    )
