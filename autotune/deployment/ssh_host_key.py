"""Is this the machine we mean: the key a host shows against the known_hosts files, looked up by OpenSSH's own tool."""

from __future__ import annotations

import base64
import binascii
import hashlib
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autotune.deployment.ssh_options import SshOptions, config_arguments
from autotune.errors import HostKeyError, SshError

_LOOK_UP_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that speaks of our host.

    Attributes:
        type: ``ssh-ed25519``, ...
        blob: the public key.
        marker: ``@revoked``, ``@cert-authority``, or empty.
        file: where it stands.
        line: its number there, from 1; ``None`` when that is not known.
    """

    type: str
    blob: bytes
    marker: str
    file: str
    line: int | None


def fetch_known_keys(options: SshOptions) -> tuple[KnownKey, ...]:
    """Look the host up in all its known_hosts files: hashed names, patterns and ``[host]:port`` included.

    A host on another port than 22 that is known under its bare name only is known too, as it is to OpenSSH.

    Raises:
        SshError: OpenSSH's ``ssh-keygen`` cannot be run.
    """
    names = [options.known_as]
    if options.host_key_alias is None and options.port != 22:
        names.append(options.hostname.lower())
    for name in names:
        keys = tuple(key for file in options.known_hosts_files for key in _look_up(name, file))
        if keys:
            return keys
    return ()


def _look_up(name: str, file: str) -> tuple[KnownKey, ...]:
    if not Path(file).is_file():
        return ()
    try:
        found = subprocess.run(
            ("ssh-keygen", "-F", name, "-f", file),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_LOOK_UP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SshError(f"ssh-keygen cannot look up {name}: {error}", where=file) from None
    return parse_known_keys(found.stdout.decode("utf-8", errors="replace"), file)


def parse_known_keys(text: str, file: str) -> tuple[KnownKey, ...]:
    """Read what ``ssh-keygen -F`` printed; lines that hold no key are skipped.

    Args:
        text: its output: a comment with the line's number, then the line.
        file: where it looked.
    """
    keys: list[KnownKey] = []
    number: int | None = None
    for line in text.splitlines():
        if line.startswith("#"):
            _, _, after = line.partition(" found: line ")
            digits = after.split()[:1]
            number = int(digits[0]) if digits and digits[0].isdigit() else None
            continue
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3:
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        keys.append(KnownKey(words[1], blob, marker, file, number))
    return tuple(keys)


def preferred_types(known: Iterable[KnownKey], offered: Iterable[str]) -> tuple[str, ...]:
    """Order algorithms so that the host shows a key that is known, if it has one."""
    types = {key.type for key in known if not key.marker}
    if "ssh-rsa" in types:
        types |= {"rsa-sha2-512", "rsa-sha2-256"}
    return tuple(sorted(offered, key=lambda name: name not in types))


def fingerprint(blob: bytes) -> str:
    """Return a key's fingerprint as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def check_host_key(options: SshOptions, known: tuple[KnownKey, ...], key_type: str, blob: bytes) -> None:
    """Compare the key that the host has shown with those that are known.

    ``StrictHostKeyChecking`` counts as ``yes`` whatever the configuration says: a tuner asks nobody at night, and a
    key that it would accept by itself would protect nothing.

    Raises:
        HostKeyError: it is unknown, another one, or revoked.
    """
    shown = f"{key_type} {fingerprint(blob)}"
    revoked = next((key for key in known if key.marker == "@revoked" and key.blob == blob), None)
    if revoked is not None:
        raise HostKeyError(
            f"the host shows the key {shown}, which is revoked in {_place(revoked)}",
            where=options.name,
            hint="do not connect; ask who runs the machine",
        )
    plain = [key for key in known if not key.marker]
    if any(key.blob == blob for key in plain):
        return
    file = shlex.quote(options.user_known_hosts_files[0]) if options.user_known_hosts_files else "~/.ssh/known_hosts"
    ssh = shlex.join(("ssh", *config_arguments(options.config), options.destination, "true"))
    scan = shlex.join(("ssh-keyscan", "-p", str(options.port), options.hostname)) + " | ssh-keygen -lf -"
    compare = f"compare that fingerprint with the one on the machine's own console; over the network, `{scan}` shows it"
    if not plain:
        authority = " (certificates of hosts are not read: add its plain key)" if known else ""
        raise HostKeyError(
            f"the host key {shown} of {options.known_as} is not in {file}{authority}; nothing was sent",
            where=options.name,
            hint=f"{compare}; then accept it once by hand with `{ssh}`",
        )
    expected = next((key for key in plain if key.type == key_type), plain[0])
    forget = shlex.join(("ssh-keygen", "-R", options.known_as, "-f", expected.file))
    raise HostKeyError(
        f"the host key has changed: {options.known_as} shows {shown}, "
        f"{_place(expected)} has {expected.type} {fingerprint(expected.blob)}; nothing was sent",
        where=options.name,
        hint=f"somebody may be in between, or the machine is new. {compare}; only when they agree: `{forget}` "
        f"and then `{ssh}`",
    )


def _place(key: KnownKey) -> str:
    return key.file if key.line is None else f"{key.file}:{key.line}"
