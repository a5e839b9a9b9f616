"""What do the files of the server that is installed on the host say? They are read, nothing of the server is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.wrapped_command import program_name, skip_wrappers
from autotune.errors import HostError
from autotune.initial_study.facts import SourceFacts

_TIMEOUT_S: Final = 60.0

# Runs in the server's own interpreter, isolated from its folder: finds the package without importing it.
_PROBE: Final = r"""
import glob, importlib.metadata, importlib.util, json, os, re, sys
spec = importlib.util.find_spec("sglang")
roots = list(spec.submodule_search_locations or []) if spec else []
try:
    version = importlib.metadata.version("sglang")
except importlib.metadata.PackageNotFoundError:
    version = None
variables, proofs = set(), set()
for root in roots[:1]:
    srt = os.path.join(root, "srt")
    paths = [os.path.join(srt, "environ.py"), *glob.glob(os.path.join(srt, "speculative", "*.py"))]
    for path in paths:
        try:
            text = open(path, encoding="utf-8", errors="replace").read(1 << 20)
        except OSError:
            continue
        variables.update(re.findall(r"\bSGLANG_(?:DDTREE|DFLASH)_[A-Z0-9_]+\b", text))
        if re.search(r"min\(\s*max\(\s*\w*budget\s*//\s*(?:max\(\s*\w+\s*,\s*1\s*\)|\w+)\s*\+\s*1\s*,\s*2\s*\)", text):
            proofs.add("clipped-width")
        if re.search(r"\btree_is_spine\s*=\s*True\b", text):
            proofs.add("chain-within-block")
print(json.dumps({"found": bool(roots), "version": version, "variables": sorted(variables), "proofs": sorted(proofs)}))
"""


def find_interpreter(command: Sequence[str]) -> str | None:
    """Return the Python that runs a server's command; ``None`` when no Python is seen in it.

    >>> find_interpreter(["/usr/bin/env", "A=1", "/opt/venv/bin/python3", "-m", "sglang.launch_server"])
    '/opt/venv/bin/python3'
    >>> find_interpreter(["/opt/venv/bin/sglang", "serve"])
    '/opt/venv/bin/python3'
    """
    program = next(iter(command[skip_wrappers(command) :]), "")
    if program_name(program).startswith(("python", "pypy")):
        return program
    folder, slash, _ = program.rpartition("/")
    return f"{folder}/python3" if slash and folder.endswith("/bin") and folder not in {"/bin", "/usr/bin"} else None


def read_source(host: Host, interpreter: str, as_user: Sequence[str]) -> SourceFacts | None:
    """Read what is installed for an interpreter; ``None`` when it has no SGLang.

    Args:
        host: the machine.
        interpreter: path of a Python.
        as_user: words before the command that make it run as the service's user.

    Raises:
        HostError: the interpreter cannot be run or says something else.
    """
    command = (*as_user, "nice", "-n", "19", interpreter, "-I", "-c", _PROBE)
    output = host.expect(command[:-1], host.run(command, timeout_s=_TIMEOUT_S, is_idempotent=True))
    try:
        found = json.loads(output.text)
        facts = SourceFacts(found["version"], frozenset(found["variables"]), frozenset(found["proofs"]))
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{interpreter} says something else: {output.complaint}", where=host.name) from error
    return facts if found["found"] else None
