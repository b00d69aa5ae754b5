import pytest

from tests.helpers.mutations import FORMATS, MEGABYTES, SECONDS, read_mutations

pytest.importorskip("safetensors", reason="safetensors is not installed")


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files_are_read_or_refused_soon_and_in_little_memory(format):
    report = read_mutations(format, 200)
    assert report.refused > 20
    assert report.seconds < SECONDS
    assert report.megabytes < MEGABYTES
