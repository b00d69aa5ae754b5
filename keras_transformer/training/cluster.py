"""The machines of a run, which TF_CONFIG names."""

import dataclasses
import json
import os
from typing import Any

_JOBS = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The tasks of a run, one process each, and the task of this process.

    >>> Cluster(("first:12345", "second:12345"), index=1).is_chief
    False
    """

    addresses: tuple[str, ...]
    """Host and port of each task, the chief's first."""
    index: int
    """The number of this process's task, from 0."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run directory: it is the chief, or the first worker."""
        return self.index == 0


def read_cluster() -> Cluster | None:
    """Return the machines that TF_CONFIG names, or None if it is not set or names a single one.

    Its form is TensorFlow's, as Kubernetes operators and other cluster managers write it: a cluster
    of a "chief", "worker" or both, each a list of addresses, and the type and index of this task.

    Raises:
        ValueError: If TF_CONFIG is anything else. It is never ignored.

    >>> print(read_cluster())
    None
    """
    text = os.environ.get("TF_CONFIG", "").strip() or "{}"
    try:
        return _cluster(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        example = {"cluster": {"worker": ["a:12345", "b:12345"]}, "task": _task("worker", 0)}
        raise ValueError(
            f"TF_CONFIG must name the chief and the workers of a run and the task of this process, "
            f"such as {json.dumps(example)}; received {text!r}: {reason}. Correct it, or unset it "
            "to train on this machine alone."
        ) from error


def _cluster(config: dict[str, Any]) -> Cluster | None:
    jobs = {job: list(addresses) for job, addresses in (config.get("cluster") or {}).items()}
    task = config.get("task") or {}
    named = {job for job, addresses in jobs.items() if addresses} | {task.get("type", "worker")}
    if others := sorted(named.difference(_JOBS)):
        raise ValueError(f"a run has no {' and no '.join(others)}")
    if len(jobs.get("chief", ())) > 1:
        raise ValueError("it has more than one chief")
    tasks = [(job, i) for job in _JOBS for i in range(len(jobs.get(job, ())))]
    addresses = tuple(jobs[job][i] for job, i in tasks)
    if not all(isinstance(address, str) and ":" in address for address in addresses):
        raise ValueError("an address is not a host and a port")
    if len(set(addresses)) < len(addresses):
        raise ValueError("an address occurs twice")
    if len(addresses) < 2:
        return None
    own = task["type"], int(task["index"])
    if own not in tasks:
        raise ValueError(f"its task, {own[0]} {own[1]}, is not in its cluster")
    return Cluster(addresses, tasks.index(own))


def _task(kind: str, index: int) -> dict[str, Any]:
    return {"type": kind, "index": index}
