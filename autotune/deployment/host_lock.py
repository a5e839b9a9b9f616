"""One tuner per host and port: a lock that the kernel drops when its holder dies, and that can name its holder."""

from __future__ import annotations

import socket
import struct

from autotune.deployment.process import read_command
from autotune.errors import HostBusyError


class HostLock:
    """The right to change the server on one port of this machine.

    An abstract socket lives in the same network namespace as the port, needs no file, and ends with its process.

    Args:
        port: the server's port.
    """

    def __init__(self, port: int) -> None:
        self._address = f"\0autotune-host-{port}"
        self._port = port
        self._socket: socket.socket | None = None

    def acquire(self) -> None:
        """Take the lock; does nothing when it is already held by this object.

        Raises:
            HostBusyError: another process holds it; the message names it.
        """
        if self._socket is not None:
            return
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            holder.bind(self._address)
            holder.listen(8)
        except OSError as error:
            holder.close()
            raise HostBusyError(
                f"another tuner already works on the server at port {self._port}{self._describe_holder()}",
                hint="wait for it, or stop it with Ctrl-C or SIGTERM: it restores the server first",
            ) from error
        self._socket = holder

    def release(self) -> None:
        """Give the lock back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _describe_holder(self) -> str:
        """Name the process at the other end, as far as the kernel tells."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(1.0)
            try:
                caller.connect(self._address)
                data = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            except OSError:
                return ""
        pid = int(struct.unpack("3i", data)[0])
        command = " ".join(read_command(pid))
        return f": process {pid}" + (f" ({command})" if command else "")
