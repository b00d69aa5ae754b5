"""What a person gave wrongly is answered in a line, before any work."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from pipelines.main import COMMANDS

BACKEND = "serve --backend http://localhost:8501"
PAGE = "serve --name x --backend"
OTHER_FORMAT = "export --checkpoint run --output toy --format hugging_face"
OF_SAVED_MODELS = "applies to --format saved_model, received hugging_face"
# Commands of which a mistake is known without a look at a file: exit status 2.
USAGE = [
    ("translate --model x --input y one", "give sentences or --input, not both"),
    (
        "translate --model x --terms y --num-hypotheses 2 one",
        "give --terms or --num-hypotheses, not both",
    ),
    (
        "translate --model x --protect all --num-hypotheses 2 one",
        "give --protect or --num-hypotheses, not both",
    ),
    (
        "translate --model x --terms y --alignments z one",
        "give --terms or --alignments, not both",
    ),
    ("translate_corpus --model x --input y --output z --workers 2", "--workers needs --engine ray"),
    (
        "translate_corpus --model x --input y --output z --engine ray --cpus-per-worker 0",
        "--cpus-per-worker must be at least 1, received 0",
    ),
    (
        "translate_corpus --model x --input y --output z --protect all --num-hypotheses 2",
        "give --protect or --num-hypotheses, not both",
    ),
    ("translate_corpus --model x --input y --output z --lines 0", "--lines must be at least 1"),
    (
        "translate --model x --columns --to de --input y",
        "give --columns or --to, not both",
    ),
    ("client --model x --columns --from a --to b", "give --columns or --from and --to, not both"),
    ("translate --model x --document y one", "give --document or sentences, not both"),
    ("translate --model x --only-missing one", "--only-missing needs --document"),
    ("translate --model x --checks one", "--checks needs --document"),
    ("translate --model x --document y --force", "--force needs --output"),
    (
        "translate --model x --document y --output none/y",
        "--output must be in an existing directory, received none/y",
    ),
    (
        "translate --model x --document y --output . --force",
        "--output must be a file, received the directory .",
    ),
    (
        "translate --model x --alignments y --input z --target ./y",
        "--alignments and --target must be different files, received y as both",
    ),
    ("translate --model x --alignments . one", "--alignments must be a file, received the dir"),
    (
        "evaluate --model x --source y --translations ./y",
        "--translations and --source must be different files, received ./y as both",
    ),
    (
        "evaluate --model x --json y --translations ./y",
        "--translations and --json must be different files, received ./y as both",
    ),
    ("evaluate --model x --json none/y", "--json must be in an existing directory, received none"),
    ("parse --model x --draw y.svg --input y.svg", "--draw and --input must be different files"),
    ("parse --model x --input y one", "give sentences or --input, not both"),
    (
        "parse --model x --draw tree.gif one",
        "--draw must end in .svg, .png, .pdf or be -, received",
    ),
    (
        "parse --model x --draw none/tree.svg one",
        "--draw must be in an existing directory, received",
    ),
    (
        "parse --model x --draw - --num-hypotheses 2 one",
        "give --draw or --num-hypotheses, not both",
    ),
    ("client --model x --input y one", "give sentences or --input, not both"),
    ("client --model x --batch-size 0 one", "must be positive"),
    ("client --model x --in-flight -1 one", "must be positive"),
    ("client --model x --url a --grpc b one", "not allowed with argument"),
    (f"{OTHER_FORMAT} --compiled", f"--compiled {OF_SAVED_MODELS}"),
    (f"{OTHER_FORMAT} --device gpu", f"--device {OF_SAVED_MODELS}"),
    (f"{OTHER_FORMAT} --precision bfloat16", f"--precision {OF_SAVED_MODELS}"),
    ("export --checkpoint x --output y --precision float16", "float16 needs --device gpu"),
    (f"{OTHER_FORMAT} --scores scores.json", f"--scores {OF_SAVED_MODELS}"),
    ("train --config none.yaml --output x", "or directory: 'none.yaml'"),
    ("serve", "give either --model or --model-config-file. See python -m pipelines.serve --help."),
    ("serve --model x --port 8501", "--port and --rest-port must differ"),
    ("serve --model x --tls-cert y", "give both --tls-cert and --tls-key, or neither"),
    (f"import x --output {Path(__file__).parent}", "--output must be a new or empty directory"),
    ("serve --model x --engine tensorflow --no-page", "--no-page is for --engine python"),
    (BACKEND, "--backend needs --name, the name of the model there, or --model"),
    (f"{BACKEND} --name x --engine python", "--engine is for a model server"),
    (f"{BACKEND} --name x --port 8600", "--port is for a model server"),
    (f"{BACKEND} --name x --threads 2", "--threads is for a model server"),
    (f"{BACKEND} --name x --batching", "--batching is for a model server"),
    (f"{BACKEND} --name x --no-page", "--no-page is for a model server"),
    (f"{BACKEND} --name x --dry-run", "--dry-run is for a model server"),
    (f"{PAGE} localhost:8501", "The address of a model server must be like http"),
    (f"{PAGE} ''", "The address of a model server must be like http"),
    *[
        (f"{PAGE} {address}", "of this machine is that of the page")
        for address in (
            *("http://localhost:8501 --rest-port 8501", "http://LOCALHOST.:8080"),
            *("http://127.0.0.7:8080", "http://[::1]:8080 --host ::"),
            *("http://10.0.0.7:8080 --host 10.0.0.7", "http://localhost --rest-port 80"),
        )
    ],
    *[
        (
            f"serve --model x {option} {port}",
            f"{option} must be between 1 and 65535, received {port}",
        )
        for option in ("--port", "--rest-port")
        for port in (0, -1, 65536)
    ],
]
NO_SOURCE = "text in files needs --source, received no --source"
# Of a text to evaluate on, all mistakes at once: exit status 1.
EVALUATE = [
    ("", f"{NO_SOURCE}; give text in files, or --tfds"),
    ("--target b", f"{NO_SOURCE}; give what is missing"),
    ("--json /dev/null --translations /dev/null", NO_SOURCE),  # Each may be given to both.
    ("--tfds a", "needs --tfds, --source-language, --target-language, received no"),
    ("--split dev", "a TFDS dataset needs .*, received no --tfds and no --source-language"),
    ("--source a --tfds b --split c", "received --source and --tfds, --split; give only one kind"),
    ("--source a --source-language en", "--source and --source-language; give only one kind"),
    ("--source a --published wmt --target-language de", "paper and multi30k, received wmt"),
    ("--published paper", "no --source; .*; --published needs --target-language, such as de"),
    ("--source a --add-tag", "--add-tag needs --target-language, such as de"),
    (
        "--source a --target b --tfds c --source-language en --target-language en",
        "received --source, --target and --tfds, --source-language; give only one kind; .*"
        "received en for both",
    ),
]


def refuse(command, capsys):
    """Return the exit status of a command and the line that it ends with."""
    name, *options = shlex.split(command)
    with pytest.raises(SystemExit) as error:
        importlib.import_module(COMMANDS[name]).main(options)
    line = capsys.readouterr().err.rstrip("\n") or str(error.value)
    assert line.startswith("error: ") and "\n" not in line
    return error.value.code, line


@pytest.mark.parametrize(("command", "message"), USAGE)
def test_a_mistake_in_the_options_is_a_line(command, message, capsys):
    status, line = refuse(command, capsys)
    assert status == 2 and message in line


@pytest.mark.parametrize(
    ("denied", "message"), [("", "must be in a directory"), ("scores", "must be a file")]
)
def test_a_file_without_permission_is_refused(denied, message, tmp_path, capsys, monkeypatch):
    (tmp_path / "scores").touch()
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path / denied)
    status, line = refuse(f"evaluate --model x --json {tmp_path}/scores", capsys)
    assert status == 2 and f"--json {message} that you may write to, received" in line


@pytest.mark.parametrize(("options", "message"), EVALUATE)
def test_all_mistakes_about_a_text_are_reported_at_once(options, message, capsys):
    status, line = refuse(f"evaluate --model none {options}", capsys)
    assert status == 1 and re.search(message, line)
