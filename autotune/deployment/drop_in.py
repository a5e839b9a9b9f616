r"""How a command and its variables are written into a systemd drop-in so that systemd reads back exactly them (pure).

The rules, each checked against systemd 252 itself in the tests: a list setting is emptied before it is set, or it
would be appended to; a word is quoted as soon as it holds anything but plain characters; inside quotes ``\`` and ``"``
are escaped; ``%`` is doubled everywhere, because specifiers are expanded first; ``$`` is doubled in commands, where
variables are expanded, and left alone in ``Environment=``, where they are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autotune.errors import UserError

_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+%^~-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def render_drop_in(command: Sequence[str], environment: Mapping[str, str | None], header: Sequence[str] = ()) -> str:
    """Render a drop-in that replaces a service's command.

    Args:
        command: the full argument vector; the program is an absolute path.
        environment: variables to set; ``None`` removes the variable whoever else sets it.
        header: comment lines without their ``#``; untrusted text is welcome, control characters are shown escaped.

    Raises:
        UserError: something cannot be written so that systemd would read it back.
    """
    return render_drop_in_as_written(render_command(command), environment, header)


def render_drop_in_as_written(
    exec_start: str, environment: Mapping[str, str | None], header: Sequence[str] = ()
) -> str:
    """Render a drop-in whose ``ExecStart=`` is already written in systemd's way; else as :func:`render_drop_in`."""
    lines = [
        *render_header(header),
        "[Service]",
        *(render_variable(name, value) for name, value in environment.items()),
    ]
    lines += ["ExecStart=", f"ExecStart={exec_start}"]
    return "\n".join(lines) + "\n"


def render_command(command: Sequence[str]) -> str:
    r"""Render an argument vector as the value of ``ExecStart=``.

    >>> print(render_command(["/usr/bin/server", "--note", 'it is "5 %" of $HOME']))
    /usr/bin/server --note "it is \"5 %%\" of $$HOME"

    Raises:
        UserError: the program is not an absolute path that systemd takes literally, or a word has control characters.
    """
    if not command:
        raise UserError("an empty command cannot be exported", hint="name a program in server.command")
    program = command[0]
    if not program.startswith("/") or "$" in program:
        raise UserError(
            f"systemd needs an absolute path without $ as the program, not {program!r}",
            where="server.command",
            hint="write the program's full path into the study file",
        )
    return " ".join(render_argument(word) for word in command)


def render_argument(word: str, *, expands_variables: bool = True) -> str:
    r"""Render one word of a command; in one that systemd does not expand, ``$`` stands for itself.

    Raises:
        UserError: it has control characters.
    """
    quoted = _quote(word, where="the command")
    return quoted.replace("$", "$$") if expands_variables else quoted


def quote_as_written(text: str) -> str:
    r"""Quote a word in which ``%`` and ``$`` are to mean to systemd what they mean in the word already.

    >>> print(quote_as_written('exec a "$$B" %h'))
    "exec a \"$$B\" %h"

    Raises:
        UserError: it has control characters other than tabs.
    """
    _check_characters(text.replace("\t", ""), "a word of the unit")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{escaped}"'


def render_header(lines: Sequence[str]) -> list[str]:
    """Render comment lines; untrusted text is welcome, control characters are shown escaped."""
    return [f"# {_flatten(line)}".rstrip() for line in lines]


def render_assignment(name: str, value: str) -> str:
    r"""Render one variable as the value of ``Environment=``, always quoted as a whole.

    >>> print(render_assignment("TOKEN", 'p"q\\r'))
    "TOKEN=p\"q\\r"

    Raises:
        UserError: the name is not a variable's name, or the value has control characters.
    """
    _check_name(name)
    return _quote(f"{name}={value}", where=f"variable {name}", always=True)


def render_variable(name: str, value: str | None) -> str:
    """Render the setting that sets one variable, or with ``None`` removes it whoever else sets it.

    Raises:
        UserError: as :func:`render_assignment`.
    """
    if value is None:
        _check_name(name)
        return f"UnsetEnvironment={name}"
    return f"Environment={render_assignment(name, value)}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a name that systemd accepts for a variable",
            hint="use letters, digits and underscores in the study file or the search space",
        )


def _quote(word: str, *, where: str, always: bool = False) -> str:
    """Quote one word, leaving plain words as they are."""
    _check_characters(word, where)
    doubled = word.replace("%", "%%")
    if not always and _PLAIN.fullmatch(word):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_characters(word: str, where: str) -> None:
    bad = next((char for char in word if _is_control(char)), None)
    if bad is not None:
        raise UserError(
            f"{word!r} holds {bad!r}, which cannot be written into a unit file",
            where=where,
            hint="remove the control character from the study file or the search space",
        )


def _is_control(char: str) -> bool:
    return ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF


def _flatten(line: str) -> str:
    """Keep a comment on its one line; a trailing backslash would join it to the next."""
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in line
    )
    return f"{visible} ." if visible.endswith("\\") else visible
