"""The machine of a measurement: its processor, its Python, and the other load on it."""

import contextlib
import os
import platform
import random
import socket
import time
from importlib import metadata
from pathlib import Path


def describe_machine(*packages: str) -> str:
    """Return the processor, its cores and the memory in one line, with Python's version.

    Args:
        packages: Packages whose versions follow, as far as they are installed.
    """
    cpu, flags = platform.machine(), set()
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            cpu = value.strip()
        elif name.strip() == "flags":
            flags = set(value.split())
    widest = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "no AVX")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"Python {platform.python_version()}"]
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    about = f"{cpu} ({widest}), {os.cpu_count()} cores, {memory:.0f} GiB"
    return f"{about}. {', '.join(versions)}"


def peak_memory() -> int:
    """Return the peak resident bytes of this process.

    `resource.getrusage` would include the process that started it.
    """
    status = dict(line.split(":", 1) for line in _read("/proc/self/status").splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


def free_ports(count: int) -> list[int]:
    """Return free ports, outside the range from which the system chooses them for others."""
    choose = random.SystemRandom()  # Processes of tests have the same seed.
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                taken.bind(("localhost", choose.randrange(20_000, 32_000)))
                ports.append(taken.getsockname()[1])
        return ports


class Stopwatch:
    """Time a block, and count the cores that other processes keep busy during it.

    >>> with Stopwatch() as watch:
    ...     time.sleep(0.1)
    >>> 0.1 <= watch.seconds < 10, watch.other_cores >= 0
    (True, True)
    """

    seconds: float
    other_cores: float

    def __enter__(self):
        self._start = time.perf_counter(), _busy_elsewhere()
        return self

    def __exit__(self, *error):
        start, busy = self._start
        self.seconds = time.perf_counter() - start
        self.other_cores = max(0.0, (_busy_elsewhere() - busy) / self.seconds)


def _busy_elsewhere() -> float:
    """Return the CPU seconds used by others, including the host of a virtual machine."""
    ticks = [int(field) for field in _read("/proc/stat").splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _waiting, irq, softirq, stolen = ticks
    busy = user + nice + system + irq + softirq + stolen
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
