"""The service of a test host, ``sglang-ddtree.service``: the embedded server, or its quick stand-in; and two stand-in GPUs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.host.container import Container

UNIT: Final = "sglang-ddtree.service"
UNIT_PATH: Final = f"/etc/systemd/system/{UNIT}"
PORT: Final = 30000
PROGRAM: Final = "/usr/local/lib/sglang/launch_server.py"
BASELINE: Final = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16")
BLOCK: Final = ("--speculative-num-draft-tokens", "16")
SITE: Final = "/opt/site"
"""Goes on the ``PYTHONPATH`` of a service whose server is to have a DDTree worker, and a ``sitecustomize`` of its own."""
OWN_SITE_LINE: Final = "the site of this server was set up"
ADMIN_DROP_IN: Final = f"{UNIT_PATH}.d/10-limits.conf"

STAND_IN_COMMAND: Final = ("/usr/bin/python3", PROGRAM, "--host", "0.0.0.0", "--port", str(PORT), "--enable-metrics")
EMBEDDED_COMMAND: Final = (
    *(sys.prefix + "/bin/python", "-m", "autotune", "serve"),
    *("--host", "0.0.0.0", "--port", str(PORT), "--enable-metrics", "--cpu-threads", "1"),
)

_HERE: Final = Path(__file__).parent


def render_unit(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    restart: str = "always",
    extra: str = "",
) -> str:
    """Return a unit as an administrator writes one; the command's words need no quoting."""
    variables = {"SGLANG_DDTREE_MAX_TOPK": "4", **(environment or {})}
    lines = "\n".join(f"Environment={name}={value}" for name, value in variables.items())
    return f"""[Unit]
Description=SGLang with DDTree
After=network-online.target
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=simple
{lines}
ExecStart={" ".join(command)}
Restart={restart}
RestartSec=1
{extra}
[Install]
WantedBy=multi-user.target
"""


def install_stand_ins(container: Container) -> None:
    """Put the stand-in server and the stand-in nvidia-smi on a host's disk."""
    container.put(PROGRAM, (_HERE / "stand_in_server.py").read_bytes(), 0o755)
    container.put("/usr/local/bin/nvidia-smi", (_HERE / "stand_in_nvidia_smi.sh").read_bytes(), 0o755)


def install_worker(container: Container) -> None:
    """Put a package with the stand-in for a DDTree worker on a host's disk, beside a module that Python loads at its start."""
    package = f"{SITE}/sglang/srt/speculative"
    for folder in (package, f"{SITE}/sglang/srt", f"{SITE}/sglang"):
        container.put(f"{folder}/__init__.py", "")
    container.put(f"{package}/ddtree_worker.py", (_HERE / "stand_in_worker.py").read_bytes())
    container.put(f"{SITE}/sitecustomize.py", f"import sys; print({OWN_SITE_LINE!r}, file=sys.stderr)\n")


def start_service(container: Container, unit: str, *, timeout_s: float = 60.0) -> None:
    """Install the unit with a drop-in of the administrator, enable and start it, and wait until it generates."""
    container.put(UNIT_PATH, unit)
    container.put(ADMIN_DROP_IN, "[Service]\nLimitNOFILE=65536\n")
    container.run(["systemctl", "daemon-reload"])
    container.run(["systemctl", "enable", "--quiet", "--now", UNIT])
    wait_until_serving(container, timeout_s)


def start_stand_in(container: Container, *, timeout_s: float = 60.0, **options: Any) -> None:
    """Start the stand-in server as the host's service; options as of :func:`render_unit`."""
    start_service(container, render_unit((*STAND_IN_COMMAND, *BASELINE, *BLOCK), **options), timeout_s=timeout_s)


def start_embedded(container: Container, **options: Any) -> None:
    """Start the embedded server as the host's service; options as of :func:`render_unit`."""
    start_service(container, render_unit((*EMBEDDED_COMMAND, *BASELINE, *BLOCK), **options), timeout_s=120.0)


def set_faults(container: Container, *rules: Mapping[str, Any]) -> None:
    """Say what goes wrong in later starts of the stand-in server, see ``stand_in_server.py``."""
    container.run(["rm", "-rf", "/run/stand-in-server"])
    container.put("/etc/stand-in-server.json", json.dumps(rules))


_ASK: Final = """
import json, sys, time, urllib.request
body = json.dumps({"text": "def f", "sampling_params": {"max_new_tokens": 1}}).encode()
request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/generate", body, {"content-type": "application/json"})
deadline = time.monotonic() + float(sys.argv[2])
while True:
    try:
        sys.exit(urllib.request.urlopen(request, timeout=5).status != 200)
    except OSError:
        if time.monotonic() >= deadline:
            sys.exit(1)
    time.sleep(0.02)
"""


def is_serving(container: Container, port: int = PORT, *, patience_s: float = 0.0) -> bool:
    """Whether the host's server generates, now or before patience ends; asked on the host, so the cable does not matter."""
    ask = ["/usr/bin/python3", "-c", _ASK, str(port), str(patience_s)]
    return container.run(ask, check=False, timeout_s=patience_s + 60.0).returncode == 0


def wait_until_serving(container: Container, timeout_s: float = 60.0) -> None:
    """Wait until the host's server generates.

    Raises:
        TimeoutError: it does not in time; with its status.
    """
    deadline = time.monotonic() + timeout_s
    while not is_serving(container, patience_s=max(deadline - time.monotonic(), 0.0)):
        if time.monotonic() > deadline:
            lines = f"systemctl status --no-pager -n 0 {UNIT}; journalctl --no-pager -o cat -n 20 -u {UNIT}"
            status = container.shell(lines, check=False)
            raise TimeoutError(f"{UNIT} does not serve after {timeout_s:g} s: {status}")
        time.sleep(0.05)
