"""How is a load run so that a signal ends it at once and is never lost?

A signal handler that raises may do so inside any callback of the event loop, and a loop takes an exception in a
callback of a connection for a broken connection. So handlers run between callbacks here, and what they raise is raised
to the caller once the load has been cancelled.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

import uvloop

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own and return its result.

    On the main thread the Python handlers of SIGINT, SIGTERM, SIGHUP and SIGALRM stay in force: one that returns lets the
    coroutine go on, one that raises ``KeyboardInterrupt`` or ``SystemExit`` cancels it, and that is raised here.
    """
    handlers: dict[signal.Signals, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in _SIGNALS}
        handlers = {number: handler for number, handler in found.items() if callable(handler)}
    raised: list[KeyboardInterrupt | SystemExit] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        tasks: list[asyncio.Task[T]] = []

        def on_signal(number: signal.Signals) -> None:
            try:
                handlers[number](number, None)
            except (KeyboardInterrupt, SystemExit) as error:
                raised.append(error)
                tasks[0].cancel()

        async def begin() -> T:
            tasks.append(asyncio.create_task(main))
            return await tasks[0]

        for number in handlers:
            loop.add_signal_handler(number, on_signal, number)
        try:
            return runner.run(begin())
        except asyncio.CancelledError:
            if raised:
                raise raised[0] from None
            raise
        finally:
            for number, handler in handlers.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)
