"""How does ``bash -c '... exec SERVER ...'`` read with other flags for the server? Pure.

Only the words behind the last ``exec`` are exchanged; everything else stays as it is written. What makes it unclear
which words reach the server is refused in words.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from autotune.deployment.shell_tokens import Token, split_commands, split_line, split_source
from autotune.deployment.unit_file import find_kept
from autotune.deployment.wrapped_command import program_name, skip_wrappers
from autotune.errors import UnitUnsupportedError

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_OTHER_LINES: Final = frozenset({"fish", "csh", "tcsh", "su"})
_VALUED: Final = frozenset({"--rcfile", "--init-file"})
_HINT: Final = "end the line in `exec SERVER ARGUMENTS`, or start the server itself in ExecStart="


def is_shell(program: str) -> bool:
    """Whether a program is a shell of the POSIX family."""
    return program_name(program) in _SHELLS


def find_line(command: Sequence[str]) -> int | None:
    """Return which word of a command is a line for a shell; ``None`` when none is.

    >>> find_line(["/usr/bin/nice", "-n", "5", "/bin/bash", "-o", "pipefail", "-lc", "exec x"])
    7

    Raises:
        UnitUnsupportedError: something that is no POSIX shell reads a line.
    """
    index = skip_wrappers(command)
    if index < len(command) and program_name(command[index]) == "busybox":
        index += 1
    if index >= len(command):
        return None
    name = program_name(command[index])
    if name in _OTHER_LINES or (name not in _SHELLS and _wraps_line(command[:index])):
        raise UnitUnsupportedError(
            f"{name} reads a line of its own, in which nothing can be exchanged",
            where=shlex.join(command),
            hint="start the server itself in ExecStart=, with User= for another user",
        )
    if name not in _SHELLS:
        return None
    has_line = False
    index += 1
    while index < len(command) and re.match(r"[-+].", command[index]):
        option = command[index]
        index += 1
        if option == "--":
            break
        if option in _VALUED or (not option.startswith("--") and "o" in option[1:].lower()):
            index += 1
        if not option.startswith("--"):
            has_line = has_line or (option[0] == "-" and "c" in option)
    return index if has_line and index < len(command) else None


def find_program(source: str) -> tuple[str, ...]:
    """Return the command behind the last ``exec`` of a line or a script, as far as it is known without running it; else the last command.

    Raises:
        UnitUnsupportedError: the words cannot be told apart.
    """
    commands = [tokens for _, tokens, _ in split_commands(split_source(source)) if tokens]
    chosen = next(
        (tokens for tokens in reversed(commands) if tokens[0].raw == "exec"), commands[-1] if commands else ()
    )
    return tuple(token.text for token in _words(chosen))


def exchange_arguments(
    line: str,
    tuned: Mapping[str, bool],
    arguments: Sequence[str],
    *,
    write: Callable[[str], str] = lambda text: text,
) -> str:
    """Exchange flags behind the last ``exec`` of a line.

    >>> exchange_arguments("cd /a && exec srv --n 1 --port $P >>log 2>&1", {"--n": True}, ["--n", "2"])
    'cd /a && exec srv --port $P --n 2 >>log 2>&1'

    Args:
        line: of the shell.
        tuned: flags to take out, and whether each has a value of its own word.
        arguments: words to append, as the server is to get them.
        write: turns text for the shell into what is to stand in the result, where another program reads that first.

    Raises:
        UnitUnsupportedError: it is unclear which words reach the server.
    """
    tokens = split_line(line)
    if any("\n" in token.raw for token in tokens):
        raise _refuse("it has more than one line", line)
    commands = list(split_commands(tokens))
    execs = [found for found in commands if found[1] and found[1][0].raw == "exec"]
    if not execs:
        raise _refuse("it starts the server without exec, so that the shell stays between systemd and the server", line)
    before, command, behind = execs[-1]
    if any(len(_words(tokens)) > 1 for _, tokens, _ in execs[:-1]):
        raise _refuse("more than one exec starts something, and only one of them is the server", line)
    _check_command(line, before, command, behind)
    words = _words(command)[1:]
    kept = {
        token.start
        for token, is_kept in zip(words, find_kept([word.text for word in words], tuned), strict=True)
        if is_kept
    }
    pieces: list[str] = []
    last_word = 0
    index = 1
    while index < len(command):
        token = command[index]
        if token.is_redirection:
            pieces.append(line[token.start : command[index + 1].end])
            index += 1
        elif token.start in kept:
            pieces.append(token.raw)
            last_word = len(pieces)
        index += 1
    pieces[last_word:last_word] = [write(shlex.quote(argument)) for argument in arguments]
    return line[: command[0].end] + " " + " ".join(pieces)


def _check_command(line: str, before: str, command: tuple[Token, ...], behind: str) -> None:
    """See that the words behind ``exec`` are all there is, and that each of them is a word.

    Raises:
        UnitUnsupportedError: it is not so.
    """
    words = _words(command)
    if len(words) < 2:
        raise _refuse("its last exec starts nothing", line)
    if before in {"|", "|&"}:
        raise _refuse(f"the server stands behind {before}, so systemd watches another process", line)
    if behind:
        raise _refuse(f"{behind.strip() or 'a newline'} follows the server's command", line)
    if command[-1].is_redirection:
        raise _refuse("its last redirection has no target", line)
    for index, token in enumerate(command):
        if not token.is_word and "<<" in token.raw:
            raise _refuse("it has a here-document", line)
        if token.is_redirection and line[: token.start].endswith("}") and command[index - 1].raw.startswith("{"):
            raise _refuse(f"{command[index - 1].raw}{token.raw} is a redirection that only some shells know", line)
        for expansion in token.expansions:
            source = expansion.source.lstrip("$").strip("{}")
            if source.startswith(("(", "`")):
                raise _refuse(f"{expansion.source} is a command of its own behind exec", line)
            if source[:1] in {"@", "*"}:
                raise _refuse(f"{expansion.source} stands for words that are not in the line", line)
    program = [word.text for word in words]
    if find_line(program) is not None:
        raise _refuse("its last exec starts another shell with a line of its own", line)


def _words(command: Sequence[Token]) -> list[Token]:
    """The words of a command without its redirections."""
    return [
        token
        for index, token in enumerate(command)
        if token.is_word and not (index and command[index - 1].is_redirection)
    ]


def _wraps_line(wrappers: Sequence[str]) -> bool:
    return any(PurePath(word).name in {"runuser", "flock", "script"} for word in wrappers) and "-c" in wrappers


def _refuse(problem: str, line: str) -> UnitUnsupportedError:
    return UnitUnsupportedError(
        f"flags cannot be exchanged in the line of the shell: {problem}", where=line, hint=_HINT
    )
