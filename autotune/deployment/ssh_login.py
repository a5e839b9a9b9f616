"""Which keys are offered to a host, and what is said when it takes none of them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentSSH

from autotune.deployment.ssh_options import SshOptions
from autotune.errors import AuthError

_AGENT_TIMEOUT_S: Final = 20.0


class _Agent(AgentSSH):
    """The agent behind one socket, which need not be the one in the environment."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(_AGENT_TIMEOUT_S)
            self.socket.connect(path)
            self._connect(self.socket)  # type: ignore[attr-defined]  # how paramiko's own agents begin
        except BaseException:
            self.socket.close()
            raise


@dataclass
class _Keys:
    """What there is to offer, and what was left out and why."""

    named: list[tuple[str, paramiko.PKey]] = field(default_factory=list)
    others: list[tuple[str, paramiko.PKey]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_encrypted: bool = False


def log_in(transport: paramiko.Transport, options: SshOptions) -> None:
    """Prove who we are, without a password and without a question: the agent's keys, then those in files.

    Raises:
        AuthError: the host accepts none of them.
        SSHException, EOFError, OSError: the connection broke.
    """
    try:
        transport.auth_none(options.user)
    except paramiko.BadAuthenticationType as refusal:
        if "publickey" not in refusal.allowed_types:
            raise AuthError(
                f"it takes only {', '.join(refusal.allowed_types) or 'nothing'} from {options.user}, and this needs a key",
                where=options.name,
                hint="let the user in with a public key (PubkeyAuthentication yes)",
            ) from None
    else:
        return
    with contextlib.ExitStack() as stack:
        keys = _collect(options, stack)
        offered: list[str] = []
        for label, key in [*keys.named, *([] if options.identities_only else keys.others)]:
            offered.append(label)
            try:
                missing = transport.auth_publickey(options.user, key)
            except paramiko.AuthenticationException:
                if not transport.is_active():
                    break
                continue
            except (paramiko.SSHException, EOFError):
                if not transport.is_active() and len(offered) > 1:
                    break
                raise
            if missing:
                raise AuthError(
                    f"it wants {' and '.join(missing)} besides the key {label}, which nobody can give at night",
                    where=options.name,
                )
            return
    raise _explain(options, offered, keys, was_cut=not transport.is_active())


def _explain(options: SshOptions, offered: list[str], keys: _Keys, *, was_cut: bool) -> AuthError:
    tried = f"offered: {', '.join(offered)}" if offered else "there was no key to offer"
    cut = ", until it closed the connection" if was_cut else ""
    notes = "".join(f"; {note}" for note in keys.notes)
    if keys.is_encrypted:
        hint = "unlock it once with ssh-add, and keep the agent running for the night"
    elif was_cut:
        hint = "set IdentityFile and IdentitiesOnly yes for this host, so that few keys are offered"
    else:
        hint = "add the public key to the user's authorized_keys there, or name the right one with IdentityFile"
    return AuthError(
        f"it lets {options.user} in with none of the keys ({tried}{cut}{notes})", where=options.name, hint=hint
    )


def _collect(options: SshOptions, stack: contextlib.ExitStack) -> _Keys:
    """Find all keys; agents stay open until the stack is closed, since they sign."""
    keys = _Keys()
    held: dict[bytes, paramiko.PKey] = {}
    for key in _agent_keys(options, stack, keys.notes):
        held[key.asbytes()] = key
    for path in options.identity_files:
        public = _public_blob(path)
        if public is not None and public in held:
            keys.named.append((f"{path} (by the agent)", held.pop(public)))
            continue
        try:
            keys.named.append((path, paramiko.PKey.from_path(path)))
        except FileNotFoundError:
            continue
        except (TypeError, paramiko.PasswordRequiredException):
            keys.is_encrypted = True
            keys.notes.append(f"{path} is locked with a passphrase and no agent holds it")
        except (
            OSError,
            ValueError,
            UnsupportedAlgorithm,
            paramiko.SSHException,
            paramiko.pkey.UnknownKeyType,
        ) as error:
            keys.notes.append(f"{path} cannot be read: {str(error) or type(error).__name__}")
    keys.others = [("a key of the agent", key) for key in held.values()]
    return keys


def _agent_keys(options: SshOptions, stack: contextlib.ExitStack, notes: list[str]) -> Iterator[paramiko.PKey]:
    path = os.environ.get("SSH_AUTH_SOCK") if options.identity_agent is None else options.identity_agent
    if path is not None and path.startswith("$"):
        path = os.environ.get(path[1:].strip("{}"))
    if not path or path == "none":
        return
    try:
        agent = _Agent(path)
    except (OSError, paramiko.SSHException) as error:
        notes.append(f"the agent at {path} does not answer: {error}")
        return
    stack.callback(agent.socket.close)
    yield from agent.get_keys()


def _public_blob(path: str) -> bytes | None:
    """Return the public key beside a private one, or the one named itself; ``None`` when there is none."""
    for name in (f"{path}.pub", path):
        try:
            return paramiko.pkey.PublicBlob.from_file(name).key_blob
        except (OSError, ValueError):
            continue
    return None
