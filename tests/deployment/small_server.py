"""A real process with a real port for tests of deployments: it may have stubborn descendants, load slowly, or crash."""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--budget", type=int, default=0)
    parser.add_argument("--stubborn", action="store_true", help="ignore SIGTERM")
    parser.add_argument(
        "--descendants", action="store_true", help="start two that ignore SIGTERM, one of them detached"
    )
    parser.add_argument("--never-listen", action="store_true")
    parser.add_argument("--exit-code", type=int, help="say a line and end")
    arguments = parser.parse_args()
    if arguments.exit_code is not None:
        print("the end is near", flush=True)
        return int(arguments.exit_code)
    if arguments.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.descendants:
        for command in ("", "setsid sleep 1001 &"):
            subprocess.Popen(["/bin/sh", "-c", f"trap '' TERM HUP; {command} exec sleep 1002"])
    print(f"cwd {Path.cwd()}", flush=True)
    if arguments.never_listen:
        while True:
            time.sleep(1000)
    with socket.create_server((arguments.host, arguments.port)) as listener:
        print("listening", flush=True)
        while True:
            connection, _ = listener.accept()
            connection.close()


if __name__ == "__main__":
    sys.exit(main())
