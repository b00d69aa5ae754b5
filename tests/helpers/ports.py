"""Ports for servers that tests start in other processes."""

import contextlib
import random
import socket


def free_ports(count):
    """Return free ports, outside the range from which the system chooses them for others."""
    choose = random.SystemRandom()  # Processes of tests have the same seed.
    with contextlib.ExitStack() as stack:
        ports = []
        while len(ports) < count:
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                taken.bind(("localhost", choose.randrange(20_000, 32_000)))
                ports.append(taken.getsockname()[1])
        return ports
