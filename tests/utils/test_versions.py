import pytest

from keras_transformer.utils.versions import find_saved_model, find_served_version


def make_version(path):
    path.mkdir(parents=True)
    (path / "saved_model.pb").touch()
    return path


@pytest.fixture
def model(tmp_path):
    """A model directory with versions 2 and 10, and entries that a server ignores."""
    model = tmp_path / "saved models" / "en_de"
    for version in ("2", "10"):
        make_version(model / version)
    for other in ("11.bak", "writing-12", "serving", "١٣"):  # The last is an Arabic 13.
        (model / other).mkdir()
    return model


def test_the_model_itself_or_its_highest_version_is_found(tmp_path):
    assert find_saved_model(tmp_path) is None
    assert find_saved_model(tmp_path / "none") is None
    nine, ten = (make_version(tmp_path / name) for name in ("9", "10"))
    for name in ("11-old", "writing-12", "latest"):
        make_version(tmp_path / name)
    (tmp_path / "13").mkdir()
    assert find_saved_model(str(tmp_path)) == ten
    assert find_saved_model(nine) == nine


def test_a_version_that_no_message_can_hold_is_left_out(model, caplog):
    make_version(model / "99999999999999999999")
    make_version(model / str(2**63))
    for _ in range(2):
        assert find_served_version(model) == model / "10"
    # Once each, although a server looks every second.
    assert {message[:40] for message in caplog.messages} == {
        "no version: 9223372036854775808 is above",
        "no version: 99999999999999999999 is abov",
    }
    assert len(caplog.messages) == 2


def test_a_server_loads_the_highest_version(model, monkeypatch):
    assert find_served_version(model) == model / "10"
    assert find_served_version(str(model / "10")) == model / "10"
    monkeypatch.chdir(model.parent)
    assert find_served_version("en_de") == model / "10"
    monkeypatch.chdir(model)
    assert find_served_version(".") == model / "10"


def test_a_link_to_a_model_keeps_its_name(model, tmp_path):
    (tmp_path / "best").symlink_to(model)
    assert find_served_version(tmp_path / "best") == tmp_path / "best" / "10"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("none", FileNotFoundError, "There is no model in .*/none: expected .*/none/1/saved_model"),
        ("en_de/serving", FileNotFoundError, "There is no model .* pipelines.export --output"),
        ("en_de/2", ValueError, "the highest version, .*/10, and not 2. Give .*/en_de to serve"),
        ("loose", ValueError, "a SavedModel whose name is not a number. Move it to .*/loose/1"),
        ("half", FileNotFoundError, "half/7 has no saved_model.pb, and .* Remove or rename"),
    ],
)
def test_what_a_server_would_not_load_is_an_error(given, error, message, model):
    make_version(model.parent / "loose")
    make_version(model.parent / "half" / "6")
    (model.parent / "half" / "7").mkdir()
    with pytest.raises(error, match=message):
        find_served_version(model.parent / given)
