import re
import shutil
import subprocess

import pytest

from keras_transformer.utils.checksums import FILE, check_files, record_files, recorded_files


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "variables").mkdir()
    with recorded_files(tmp_path, ["config.yaml", "variables/data"]):
        (tmp_path / "config.yaml").write_text("epochs: 7\n")
        (tmp_path / "variables" / "data").write_bytes(b"\x00\xff")
    (tmp_path / "README.md").write_text("Edit me.")
    return tmp_path


def test_files_are_checked_by_their_content(directory):
    check_files(directory)
    (directory / "README.md").write_text("Edited.")
    (directory / "config.yaml").touch()
    check_files(directory)
    (directory / "variables" / "data").write_bytes(b"\x00\xfe")
    check_files(directory, ["config.yaml", "README.md"])
    message = f"^{directory}/variables/data is damaged: .* Restore it; if .* remove its line from "
    for names in (None, ["variables/data"]):
        with pytest.raises(ValueError, match=message):
            check_files(directory, names)


def test_a_file_that_is_missing_is_named(directory):
    (directory / "config.yaml").unlink()
    with pytest.raises(ValueError, match="config.yaml is missing, but .*/SHA256SUMS lists it"):
        check_files(directory)
    check_files(directory, ["variables/data"])


def test_without_records_nothing_is_checked(directory):
    (directory / FILE).unlink()
    check_files(directory)
    check_files(directory, ["none"])


@pytest.mark.parametrize("content", ["abc  config.yaml\n", "\x00", "0" * 64])
def test_a_damaged_record_is_named(content, directory):
    path = directory / FILE
    path.write_text(path.read_text() + content)
    with pytest.raises(ValueError, match=f"^{path} is damaged: line 3 must be a checksum and the"):
        check_files(directory)
    with pytest.raises(ValueError, match="SHA256SUMS is damaged"):
        record_files(directory, ["README.md"])


def test_a_file_that_is_being_written_has_no_record(directory):
    with pytest.raises(RuntimeError, match="killed"), recorded_files(directory, ["config.yaml"]):
        (directory / "config.yaml").write_text("epochs")
        raise RuntimeError("killed")
    check_files(directory)
    assert re.findall(r"\S+$", (directory / FILE).read_text()) == ["variables/data"]
    record_files(directory, ["config.yaml"])
    (directory / "config.yaml").write_text("epoch")
    with pytest.raises(ValueError, match="config.yaml is damaged"):
        check_files(directory)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sha256sum_reads_the_records(directory):
    command = ["sha256sum", "--check", "--strict", FILE]
    assert subprocess.run(command, cwd=directory, capture_output=True).returncode == 0
    (directory / "config.yaml").write_text("epochs: 8\n")
    assert subprocess.run(command, cwd=directory, capture_output=True).returncode == 1
