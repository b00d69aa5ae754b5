import contextlib
import gzip
import lzma
import os
import threading

import pytest

from keras_transformer.config import DataConfig
from keras_transformer.data import read_lines, read_pairs
from keras_transformer.data.formats import corpus_file
from keras_transformer.data.splitting import split_text
from keras_transformer.training.prepare import inspection_report
from pipelines.plan import propose


def write(path, content, compress=False):
    data = content if isinstance(content, bytes) else content.encode()
    compressors = {False: bytes, True: gzip.compress, "xz": lzma.compress}
    path.write_bytes(compressors[compress](data))
    return path


@pytest.mark.parametrize("compress", [False, True, "xz"])
def test_lines_are_kept_exactly(tmp_path, compress):
    lines = ["", " a  b\t", "x\u2028y\x85z\x0b\x0c", "with\rreturn", "🐕", ""]
    path = write(tmp_path / "lines", "".join(line + "\n" for line in lines), compress)
    assert read_lines(path) == read_lines(str(path)) == lines


def test_the_last_line_needs_no_newline(tmp_path):
    assert read_lines(write(tmp_path / "a", "x\ny")) == ["x", "y"]
    assert read_lines(write(tmp_path / "b", "")) == []


def test_windows_line_ends_and_byte_order_mark_are_dropped(tmp_path):
    assert read_lines(write(tmp_path / "a", b"\xef\xbb\xbfx\r\n\r\ny\r\n")) == ["x", "", "y"]


def test_gzip_is_detected_by_content_not_by_name(tmp_path):
    assert read_lines(write(tmp_path / "a.txt", "x\n", compress=True)) == ["x"]
    assert read_lines(write(tmp_path / "b.gz", "x\n")) == ["x"]
    assert read_lines(write(tmp_path / "c.gz", "x\n", compress="xz")) == ["x"]


def test_parallel_files_may_differ_in_compression(tmp_path):
    source = write(tmp_path / "a.en", "a dog\na cat\n")
    target = write(tmp_path / "a.de.gz", "ein Hund\neine Katze\n", compress=True)
    pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    assert read_pairs(source, target) == pairs


@pytest.mark.parametrize("compress", [False, True, "xz"])
def test_a_tsv_file_has_two_columns(tmp_path, compress):
    path = write(tmp_path / "a.tsv", "a dog\tein Hund\n\tkein\n", compress)
    assert read_pairs(path) == [("a dog", "ein Hund"), ("", "kein")]


def test_columns_are_no_side_of_aligned_files(tmp_path):
    source = write(tmp_path / "a.tsv", "a dog\tein Hund\na cat\teine Katze\n")
    target = write(tmp_path / "a.de", "ein Hund\neine Katze\n")
    for paths in ((source, target), (target, source)):
        with pytest.raises(
            ValueError, match=r"a\.tsv must have .* columns, .* Leave the target out"
        ):
            read_pairs(*paths)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet"])
def test_records_are_no_training_text(tmp_path, name):
    source, target = write(tmp_path / name, '{"text": "a dog"}\n'), write(tmp_path / "a", "x\n")
    for paths in ((source,), (source, target), (target, source)):
        with pytest.raises(ValueError, match="received JSON lines or Parquet. Write its columns"):
            read_pairs(*paths)


def test_columns_after_an_empty_line_are_no_side_of_aligned_files(tmp_path):
    source = write(tmp_path / "a.tsv", "\na dog\tein Hund\n")
    with pytest.raises(ValueError, match="Leave the target out"):
        read_pairs(source, write(tmp_path / "a.de", "\nein Hund\n"))


def test_a_pipe_named_as_columns_is_read_once(tmp_path):
    os.mkfifo(tmp_path / "a.tsv")
    writer = threading.Thread(target=(tmp_path / "a.tsv").write_text, args=["one\ntwo\n"])
    writer.start()
    target = write(tmp_path / "a.de", "eins\nzwei\n")
    assert read_pairs(tmp_path / "a.tsv", target) == [("one", "eins"), ("two", "zwei")]
    writer.join()


def test_lines_in_files_named_as_columns_or_messages_are_read(tmp_path):
    source = write(tmp_path / "a.tsv", "a dog\na cat\n")
    target = write(tmp_path / "a.ts", "mbyana\n<xwimbyana>\n")  # Tsonga.
    assert read_pairs(source, target) == [("a dog", "mbyana"), ("a cat", "<xwimbyana>")]


def test_different_numbers_of_lines_are_rejected(tmp_path):
    source, target = write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "a.de", "1\n2\n")
    with pytest.raises(ValueError, match=r"received 3 in .*a\.en and 2 in .*a\.de\. Check"):
        read_pairs(source, target)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("one column", r"received 0 tabs\. .*give the target file too \(data\.train_target"),
        ("a\tb\tc", r"received 2 tabs\. Remove the line or its extra columns"),
    ],
)
def test_a_tsv_line_without_exactly_one_tab_is_rejected(tmp_path, line, message):
    path = write(tmp_path / "a.tsv", f"a\tb\n{line}\nc\td\n")
    with pytest.raises(ValueError, match=rf"a\.tsv, line 2: .* {message}"):
        read_pairs(path)


def test_an_empty_tsv_line_is_a_pair_of_empty_sentences(tmp_path):
    path = write(tmp_path / "a.tsv", "a\tb\n\nc\td\n")
    assert read_pairs(path) == [("a", "b"), ("", ""), ("c", "d")]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.en must be a text file, but does not"):
        read_lines(tmp_path / "absent.en")


@pytest.mark.parametrize("compress", [False, True, "xz"])
def test_text_that_is_not_utf8_is_rejected(tmp_path, compress):
    path = write(tmp_path / "latin1", b"first\nsch\xf6n\n", compress)
    with pytest.raises(ValueError, match=r"latin1, line 2: .* byte 0xf6 at position 3"):
        read_lines(path)


def test_a_damaged_gzip_file_is_rejected(tmp_path):
    whole = gzip.compress(b"".join(b"line %d\n" % i for i in range(1000)))
    cut = write(tmp_path / "cut.gz", whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut\.gz must be a complete gzip file, received damaged"):
        read_lines(cut)
    flipped = bytearray(whole)
    flipped[-6] ^= 1
    with pytest.raises(ValueError, match="CRC check failed"):
        read_lines(write(tmp_path / "flipped.gz", bytes(flipped)))
    cut = write(tmp_path / "cut.xz", lzma.compress(gzip.decompress(whole))[:-40])
    with pytest.raises(ValueError, match=r"cut\.xz must be a complete xz file, received damaged"):
        read_lines(cut)


@pytest.fixture
def pipe():
    """Return the path of a pipe that holds some bytes, as a shell gives it to a command."""
    with contextlib.ExitStack() as stack:

        def path_of(content):
            end, start = os.pipe()
            stack.callback(os.close, end)
            with open(start, "wb") as file:
                file.write(content)
            return f"/dev/fd/{end}"

        yield path_of


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_a_pipe_is_read_from_its_beginning(pipe, compress):
    lines = [f"line {i}" for i in range(2000)]
    assert read_lines(pipe(compress("".join(f"{line}\n" for line in lines).encode()))) == lines


def test_a_pipe_that_must_be_read_twice_is_refused(pipe, tmp_path):
    path, file = pipe(b"a\tb\nc\td\n"), write(tmp_path / "a.tsv", "a\tb\nc\td\n")
    message = rf"{path} is read more than once and must be a file, received a pipe"
    for train, valid in ((path, file), (file, path)):
        data = DataConfig(train_source=str(train), validation_source=str(valid))
        with pytest.raises(ValueError, match=message):
            inspection_report(data)
    with pytest.raises(ValueError, match=message):
        split_text(path, None, tmp_path / "split", valid=1, test=0)
    with pytest.raises(ValueError, match=message):
        corpus_file(path)
    with pytest.raises(ValueError, match=message):
        propose({"source": path, "validation_source": str(file)}, hours=1)
    assert read_pairs(path) == [("a", "b"), ("c", "d")]


def test_utf_16_is_named_in_the_advice(tmp_path):
    path = write(tmp_path / "wide", "a dog\n".encode("utf-16"))
    with pytest.raises(ValueError, match="iconv -f utf-16 -t utf-8"):
        read_lines(path)
