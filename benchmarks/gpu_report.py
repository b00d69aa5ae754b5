"""The Markdown tables of the records that `benchmarks.gpu` writes."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu_training import ON_JAX, OURS
from benchmarks.gpu_worker import Record
from benchmarks.report import table_line

PEERS = ("Hugging Face, bfloat16", "CTranslate2")


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of all tables for which there are records."""
    for title, part in PARTS.items():
        of_part = [record for record in records if record["part"] == title.lower()]
        try:
            yield from ("", f"### {title}", "", *part(of_part)) if of_part else ()
        except Exception as error:  # The other parts are still to be told.
            yield f"{title}: {error!r}"
    failed = [record for record in records if "error" in record or "failed" in record]
    if failed:
        yield from ("", "### Failures", "")
    for record in failed:
        about = {name: value for name, value in record.items() if name not in ("error", "failed")}
        text = str(record.get("error") or record.get("failed")).strip()
        yield from (f"- {about}", "", *(f"      {line}" for line in text.splitlines()[-12:]), "")


def _table(names: str, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    columns = names.split("|")
    yield table_line(columns)
    yield f"|{'|'.join(['---'] + ['--:'] * (len(columns) - 1))}|"
    yield from map(table_line, rows)


def runs(records: Sequence[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records of runs by their values of these names, in the order of the first.

    >>> runs([{"batch": 1, "seconds": 2.0}, {"batch": 1, "error": "x"}], "batch")
    {(1,): [{'batch': 1, 'seconds': 2.0}]}
    """
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if "seconds" in record:
            found.setdefault(tuple(record.get(name) for name in names), []).append(record)
    return found


def _median(records):
    return statistics.median(record["seconds"] for record in records)


def _spread(records):
    seconds = [record["seconds"] for record in records]
    return f"{(max(seconds) - min(seconds)) / statistics.median(seconds):.0%}"


def _ratio(value, other):
    return f"{value / other:.2f}" if value and other else ""


def _machine(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        for name, value in record.items():
            if name != "part":
                yield f"- {name}: {value}"


def _training(records: Sequence[Record]) -> Iterator[str]:
    text = next(record for record in records if "tokens" in record)
    first = {}
    for record in records:
        passes = record.get("first_pass", {})
        for name, seconds in passes.items():
            paused = record["paused"] if seconds == max(passes.values()) else 0
            first[record["model"], name] = max(seconds - paused, 0)
    peak = max((record.get("operations", 0) for record in records if record != text), default=0)
    measured = runs(records, "model", "trainer")
    rows = []
    for (model, trainer), found in measured.items():
        of_model = {name: _median(runs_) for (m, name), runs_ in measured.items() if m == model}
        others = [of_model[name] for name in of_model if name not in (OURS, ON_JAX)]
        seconds, operations = of_model[trainer], text["products"][model] / of_model[trainer]
        memory = found[-1].get("memory")
        rows.append(
            (
                *(model, trainer),
                f"{text['tokens'] / seconds:,.0f}",
                _spread(found),
                _ratio(min(others, default=0), seconds),
                _ratio(of_model.get(ON_JAX), seconds),
                f"{operations / 1e12:,.2f}",
                f"{operations / peak:.0%}" if peak else "",
                f"{found[-1]['loss']:.2f}",
                f"{first.get((model, trainer), 0):.0f}",
                f"{memory / 1e9:.1f}" if memory else "",
            )
        )
    yield from _table(
        "model|trainer|tokens/s|spread|to PyTorch|to JAX|matrix TFLOP/s|of the peak|loss"
        "|first pass s|memory GB",
        rows,
    )
    yield ""
    yield (
        f"{text['batches']} batches of {text['shapes']} shapes, {text['padding']:.0%} padding. "
        f"Peak: {peak / 1e12:,.1f} TFLOP/s in a large product. To PyTorch: the faster one."
    )
    for record in records:
        if "kinds" in record:
            yield from _profile(record)


def _profile(record: Record) -> Iterator[str]:
    waits = record["waits"] / record["span"]
    yield from (
        "",
        f"Profile of {record['model']}: {record['span']:.2f} ms a step, of which the card waits "
        f"{record['waits']:.2f} ms ({waits:.1%}); {record['kernels']} kernels and copies a step.",
        "",
    )
    shares = [
        (kind, f"{ms:.3f}", f"{ms / record['span']:.1%}") for kind, ms in record["kinds"].items()
    ]
    yield from _table("kind|ms a step|share", shares)
    yield ""
    cut = [(f"{ms:.3f}", n, name[:70], op[-90:]) for name, op, ms, n in record["top"]]
    yield from _table("ms a step|times|kernel|operation", cut)


def _serving(records: Sequence[Record]) -> Iterator[str]:
    measured = runs(records, "form", "batch")
    strings = {record["form"]: record["strings"] for record in records if "strings" in record}
    reference = strings.get("CPU")
    rows = []
    for form in dict.fromkeys(record["form"] for record in records if "form" in record):
        row = [form]
        for batch in (1, 64, 256):
            found = measured.get((form, batch))
            row.append(f"{_median(found) * (1e3 if batch == 1 else 1):.2f}" if found else "")
        if form in strings and reference:
            same = sum(map(str.__eq__, strings[form], reference))
            row.append(f"{same} of {len(reference)}")
        rows.append(row)
    yield from _table("form|single ms|all by 64 s|all by 256 s|strings as on the CPU", rows)


def _decoding(records: Sequence[Record]) -> Iterator[str]:
    cell = ("vocabulary", "length", "beam", "batch")
    measured = runs(records, *cell, "engine")
    rows = []
    for (*key, engine), found in sorted(measured.items(), key=lambda item: item[0][:4]):
        peers = [measured.get((*key, peer)) for peer in PEERS]
        seconds = _median(found)
        ratios = [_ratio(_median(peer) if peer else 0, seconds) for peer in peers]
        speed = f"{found[0]['tokens'] / seconds:,.0f}"
        rows.append((*key, engine, speed, _spread(found), *ratios))
    yield from _table(
        "vocabulary|tokens|beam|batch|engine|tokens/s|spread|to Hugging Face bfloat16"
        "|to CTranslate2",
        rows,
    )


def _equality(records: Sequence[Record]) -> Iterator[str]:
    found = [record for record in records if "difference" in record]
    rows = [(" and ".join(record["pair"]), f"{record['difference']:.1e}") for record in found]
    yield from _table("20 steps on|largest difference of a weight", rows)


def feeding_facts(metrics: dict[str, list[float]], per_epoch: int) -> Record:
    """Return the pace of the second epoch's rows of metrics.csv, and the validation's seconds.

    >>> steps = {"step": [50, 100, 200], "seconds": [9.0, 12.0, 16.0]}
    >>> feeding_facts(steps | {"tokens_per_second": [1.0, 2.0, 3.0]}, per_epoch=50)
    {'tokens_per_second': 3.0, 'step_seconds': 0.04, 'between_epochs': 1.0}
    """
    steps, seconds = metrics["step"], metrics["seconds"]
    pace = (seconds[-1] - seconds[-2]) / (steps[-1] - steps[-2])
    ends = steps.index(per_epoch)
    later = steps[ends + 1] - steps[ends]
    return {
        "tokens_per_second": metrics["tokens_per_second"][-1],
        "step_seconds": round(pace, 6),
        "between_epochs": round(seconds[ends + 1] - seconds[ends] - later * pace, 3),
    }


def _feeding(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if "metrics" in record:
            facts = feeding_facts(record["metrics"], record["steps"])
            yield f"`{record['command']}`: {record['seconds']:.0f} s in all, {facts}. It begins:"
            yield from ("", *(f"    {line}" for line in record["log"]))


PARTS = {
    "Machine": _machine,
    "Training": _training,
    "Serving": _serving,
    "Decoding": _decoding,
    "Equality": _equality,
    "Feeding": _feeding,
}
"""The parts by title, each with what makes its lines."""
