import sys
import time

from benchmarks import messages

SOURCES = [
    "Copy %d of %d files to <b>{name}</b>",
    "E_xit",
    "See https://keras.io/api, 1,000 times",
    "Use --force or -f",
]
REFERENCES = [
    "%d von %d Dateien nach <b>{name}</b> kopieren",
    "_Beenden",
    "Siehe https://keras.io/api, 1.000-mal",
    "--force oder -f verwenden",
]
LOST = [
    "%d Dateien nach <b>{Name}</b> kopieren",
    "Beenden",
    "Siehe https://keras.io, 100 Mal",
    "--force --force oder -F verwenden",
]


def test_spans_are_counted_as_often_as_both_sides_have_them():
    assert messages.kept(SOURCES, REFERENCES) == {
        "placeholders": (3, 3),
        "tags": (2, 2),
        "URLs": (1, 1),
        "numbers": (1, 1),
        "options": (2, 2),
        "accelerators": (1, 1),
    }
    assert messages.kept(SOURCES, LOST) == {
        "placeholders": (1, 3),
        "tags": (2, 2),
        "URLs": (0, 1),
        "numbers": (0, 1),
        "options": (1, 2),
        "accelerators": (0, 1),
    }


def test_a_report_has_the_scores_the_shares_and_the_lines(tmp_path, capsys):
    paths = {name: tmp_path / f"{name}.txt" for name in ("source", "reference", "lost")}
    for path, lines in zip(paths.values(), (SOURCES, REFERENCES, LOST), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    output = tmp_path / "report.md"
    options = ["--source", str(paths["source"]), "--reference", str(paths["reference"])]
    messages.main([*options, "--lines", "2", "--report", str(output), str(paths["lost"])])
    header, _, whole, reference, lost, _, *shown, _, _ = output.read_text().splitlines()
    assert header.startswith("|  | BLEU | chrF | placeholders | tags")
    assert whole == "| in the source |  |  | 3 | 2 | 1 | 1 | 2 | 1 |"
    assert reference.count("100.0%") == 6
    assert lost.endswith("| 33.3% | 100.0% | 0.0% | 0.0% | 50.0% | 0.0% |")
    assert len(shown) == 6
    assert output.read_text() == capsys.readouterr().out


def test_commands_end_when_they_have_used_their_seconds_of_a_processor(tmp_path):
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 3: pass"]
    parent = [sys.executable, "-c", f"import subprocess; subprocess.run({busy})"]
    idle = [sys.executable, "-c", "import time; time.sleep(3)"]
    began = time.monotonic()
    used = messages.run_for(1, {"parent": parent, "idle": idle}, tmp_path)
    assert used["parent"] >= 1 > used["idle"]
    assert time.monotonic() - began >= 3
