"""How `ssh` would reach a destination: what `ssh -G` says, as a record. Only OpenSSH reads OpenSSH's configuration."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.errors import SshError, UserError

_ASK_TIMEOUT_S: Final = 20.0
_CONNECT_TIMEOUT_S: Final = 15.0
_KEEPALIVE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class SshOptions:
    """What matters here of OpenSSH's options for one destination.

    Attributes:
        destination: as the user wrote it: ``root@gpu1``, or an alias.
        config: file read instead of ``~/.ssh/config``; ``None`` for that one.
        hostname: ``HostName``, the address or name to connect to.
        user: ``User``.
        port: ``Port``.
        identity_files: ``IdentityFile``, in order; not all of them exist.
        identities_only: ``IdentitiesOnly``: of the agent's keys only those named by a file are offered.
        identity_agent: socket of the agent; ``None`` for ``$SSH_AUTH_SOCK``, ``none`` for no agent.
        user_known_hosts_files: ``UserKnownHostsFile``.
        global_known_hosts_files: ``GlobalKnownHostsFile``.
        host_key_alias: ``HostKeyAlias``; ``None`` when there is none.
        proxy_jump: ``ProxyJump``; ``None`` when there is none.
        proxy_command: ``ProxyCommand`` with its tokens expanded; ``None`` when there is none.
        connect_timeout_s: ``ConnectTimeout``, or ours where it names none.
        keepalive_s: ``ServerAliveInterval``, or ours where it is off: a link that lasts a night needs one.
    """

    destination: str
    config: str | None
    hostname: str
    user: str
    port: int
    identity_files: tuple[str, ...]
    identities_only: bool
    identity_agent: str | None
    user_known_hosts_files: tuple[str, ...]
    global_known_hosts_files: tuple[str, ...]
    host_key_alias: str | None
    proxy_jump: str | None
    proxy_command: str | None
    connect_timeout_s: float
    keepalive_s: float

    @property
    def name(self) -> str:
        """For people: the destination with its user."""
        return self.destination if "@" in self.destination else f"{self.user}@{self.destination}"

    @property
    def known_as(self) -> str:
        """The name under which OpenSSH looks for the host's key: ``host``, ``[host]:port``, or the alias."""
        if self.host_key_alias is not None:
            return self.host_key_alias
        name = self.hostname.lower()
        return name if self.port == 22 else f"[{name}]:{self.port}"

    @property
    def known_hosts_files(self) -> tuple[str, ...]:
        """All files with host keys, the user's first."""
        return self.user_known_hosts_files + self.global_known_hosts_files


def config_arguments(config: str | None) -> tuple[str, ...]:
    """Return what makes ``ssh`` read another configuration file."""
    return () if config is None else ("-F", str(Path(config).expanduser()))


def fetch_ssh_options(destination: str, config: str | None = None) -> SshOptions:
    """Ask OpenSSH how it would reach a destination; nothing is sent to it.

    Raises:
        UserError: the destination cannot be one.
        SshError: there is no OpenSSH client, or it cannot read its configuration.
    """
    if not destination or destination.startswith("-") or re.search(r"[\s\x00-\x1f]", destination):
        raise UserError(
            f"{destination!r} is not a destination for ssh",
            where="deployment.host",
            hint="write user@host or an alias of ~/.ssh/config",
        )
    command = ("ssh", "-G", *config_arguments(config), "--", destination)
    try:
        answer = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_ASK_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise SshError(
            "there is no OpenSSH client on this machine", where=destination, hint="install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise SshError(
            f"ssh -G did not answer within {_ASK_TIMEOUT_S:g} s",
            where=destination,
            hint="a `Match exec` line of the ssh configuration may hang",
        ) from None
    if answer.returncode != 0:
        said = " ".join(answer.stderr.decode("utf-8", errors="replace").split())
        raise SshError(f"ssh cannot read its configuration: {said}", where=config or "~/.ssh/config")
    return parse_ssh_options(answer.stdout.decode("utf-8", errors="surrogateescape"), destination, config)


def parse_ssh_options(text: str, destination: str, config: str | None = None) -> SshOptions:
    """Read what ``ssh -G`` printed: one option a line, its name in small letters.

    Args:
        text: its output; options that are not used here are skipped.
        destination: what it was asked about.
        config: the file it was told to read.

    Raises:
        SshError: it lacks the address, the user or the port.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key.lower(), []).append(value.strip())
    values = {key: entries[0] for key, entries in found.items()}
    try:
        hostname, user, port = values["hostname"], values["user"], int(values["port"])
    except (KeyError, ValueError):
        raise SshError(f"ssh -G does not say how to reach {destination}", where=destination) from None
    tokens = {
        "%": "%",
        "h": hostname,
        "n": destination.rpartition("@")[2],
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
        "d": str(Path.home()),
    }
    return SshOptions(
        destination=destination,
        config=config,
        hostname=hostname,
        user=user,
        port=port,
        identity_files=tuple(_expand_path(name, tokens) for name in found.get("identityfile", ()) if name != "none"),
        identities_only=values.get("identitiesonly") == "yes",
        identity_agent=_parse_agent(values.get("identityagent"), tokens),
        user_known_hosts_files=_parse_files(values.get("userknownhostsfile"), tokens),
        global_known_hosts_files=_parse_files(values.get("globalknownhostsfile"), tokens),
        host_key_alias=_unless_none(values.get("hostkeyalias")),
        proxy_jump=_unless_none(values.get("proxyjump")),
        proxy_command=_parse_proxy(values.get("proxycommand"), tokens),
        connect_timeout_s=_parse_seconds(values.get("connecttimeout"), _CONNECT_TIMEOUT_S),
        keepalive_s=_parse_seconds(values.get("serveraliveinterval"), _KEEPALIVE_S),
    )


def jump_command(options: SshOptions) -> tuple[str, ...]:
    """Return the command whose standard input and output are a connection to a host behind ``ProxyJump``.

    As OpenSSH does it: the last jump is connected to through those before it.
    """
    *before, last = (options.proxy_jump or "").split(",")
    address = f"[{options.hostname}]:{options.port}"
    hops = ("-J", ",".join(before)) if before else ()
    last = last if last.startswith("ssh://") else f"ssh://{last}"
    return ("ssh", *config_arguments(options.config), *unattended(options), *hops, "-W", address, "--", last)


def unattended(options: SshOptions) -> tuple[str, ...]:
    """Return options for an ``ssh`` that nobody watches: it asks nothing, trusts no new key and notices a dead link."""
    return _as_arguments(
        {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ControlMaster": "no",
            "ControlPath": "none",
            "ConnectTimeout": f"{max(round(options.connect_timeout_s), 1)}",
            "ServerAliveInterval": f"{max(round(options.keepalive_s), 1)}",
            "ServerAliveCountMax": "3",
        }
    )


def _as_arguments(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))


def _parse_seconds(value: str | None, default_s: float) -> float:
    """Read a number of seconds; ``none`` and 0 mean that the user chose nothing."""
    return float(value) if value is not None and value.isdigit() and int(value) > 0 else default_s


def _unless_none(value: str | None) -> str | None:
    return None if value in {None, "", "none"} else value


def _parse_agent(value: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if value in {None, "", "SSH_AUTH_SOCK"} else _expand_path(value or "", tokens)


def _parse_proxy(value: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if value in {None, "", "none"} else _expand(value or "", tokens)


def _parse_files(value: str | None, tokens: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(_expand_path(name, tokens) for name in _split(value or "") if name != "none")


def _split(value: str) -> Sequence[str]:
    """Split a list of files, which ``ssh -G`` prints without quotes: a name with a blank is one that exists."""
    return (value,) if Path(value).is_file() else value.split()


def _expand_path(name: str, tokens: Mapping[str, str]) -> str:
    return str(Path(_expand(name, tokens)).expanduser())


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    """Replace ``%h`` and its like; tokens that are unknown here stay as they are."""
    return re.sub("%(.)", lambda match: tokens.get(match[1], match[0]), text)
