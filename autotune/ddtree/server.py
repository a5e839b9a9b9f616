"""The server process: reserve the port, start the engine process, then load what serves HTTP while the model loads."""

from __future__ import annotations

import logging
import socket
from dataclasses import asdict

from autotune.ddtree.engine_link import spawn_engine
from autotune.ddtree.flags import ServerFlags
from autotune.ddtree.server_log import configure_logging

logger = logging.getLogger(__name__)


def run_server(flags: ServerFlags) -> int:
    """Serve until told to stop.

    Returns:
        The exit code: 0 after a stop by signal, 1 when the address, the engine or the start-up failed.
    """
    configure_logging()
    logger.info("server_args=%s", {name: value for name, value in asdict(flags).items() if name != "notes"})
    for note in flags.notes:
        logger.warning(note)
    try:
        sock = _bind(flags.host, flags.port)
    except OSError as error:
        where = f"('{flags.host}', {flags.port})"
        logger.critical("[Errno %s] cannot bind on address %s: %s", error.errno, where, error.strerror)
        return 1
    with sock:
        process, engine_socket = spawn_engine(flags)
        # Imported while the engine process imports torch, which takes longer.
        from autotune.ddtree.serving import serve  # noqa: PLC0415

        return serve(flags, sock, process, engine_socket)


def _bind(host: str, port: int) -> socket.socket:
    """Reserve the address without listening: until the engine is up, connections are refused.

    Raises:
        OSError: the address is taken or unknown.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
