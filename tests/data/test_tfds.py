import gzip
import hashlib
import http.server
import socket
import sys
import threading

import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums, downloader

from keras_transformer.data import read_tfds
from keras_transformer.data import tfds as tfds_source
from keras_transformer.data.multi30k import Multi30k
from tests.helpers.toy_tfds import register_pairs

PAIRS = [
    ("one dog", "ein Hund"),
    ("", "leer"),
    ("\u2028two\n", " zwei 🐕"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
]


ToyTranslate = register_pairs("toy_translate", train=PAIRS, dev=PAIRS[:2])


def read_toy(directory, split="train", source="en", target="de"):
    return read_tfds("toy_translate", split, source, target, directory)


@pytest.fixture
def no_network(monkeypatch):
    """Make every host unreachable, and return the names of those that were looked up."""
    asked = []

    def fail(host, *args, **kwargs):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return asked


def test_pairs_are_read_exactly_and_in_either_direction(tmp_path, monkeypatch):
    monkeypatch.setattr(tfds_source, "_SENTENCES_AT_ONCE", 3)
    pairs = read_toy(tmp_path)
    assert sorted(pairs) == sorted(PAIRS)
    assert read_toy(tmp_path, source="de", target="en") == [pair[::-1] for pair in pairs]


def test_a_split_has_the_syntax_of_tfds(tmp_path):
    pairs = read_toy(tmp_path)
    assert sorted(read_toy(tmp_path, "dev")) == sorted(PAIRS[:2])
    assert read_toy(tmp_path, "train[2:5]") == pairs[2:5]
    with pytest.raises(ValueError, match=r"split test: Unknown split .* \['train', 'dev'\]"):
        read_toy(tmp_path, "test")
    with pytest.raises(ValueError, match=r"must have the split dev\[:0%\]: .* no data!\. Choose"):
        read_toy(tmp_path, "dev[:0%]")


def test_a_dataset_is_prepared_once_in_the_directory_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    pairs = read_toy(None)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.tfrecord*")}
    assert files and read_toy(None) == pairs
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.tfrecord*")} == files


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("wmt14_translate/de-en", ("de", "en")),
        ("wmt14_translate/fr-en", ("fr", "en")),
        ("ted_hrlr_translate/pt_to_en", ("pt", "en")),
        ("multi30k", ("de", "fr")),
    ],
)
def test_datasets_of_the_documentation_are_read_in_both_directions(tmp_path, name, languages):
    with tfds.testing.mock_data(num_examples=4):  # TFDS's own datasets, with invented sentences.
        pairs = read_tfds(name, "train", *languages, tmp_path)
        turned = read_tfds(name, "train", *reversed(languages), tmp_path)
    assert len(pairs) == 4
    assert turned == [pair[::-1] for pair in pairs]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wmt2014", r"such as wmt14_translate/de-en, received wmt2014\. Dataset wmt2014 not found"),
        ("wmt14_translate/de-fr", "received wmt14_translate/de-fr.* BuilderConfig de-fr not found"),
        ("wmt14_translate/fr-en", "received en and de, but it has en and fr. Choose from"),
        ("mnist", "received en and de, but it has no translations"),
    ],
)
def test_a_name_without_these_translations_is_rejected(tmp_path, no_network, name, message):
    with pytest.raises(ValueError, match=message) as error:
        read_tfds(name, "train", "en", "de", tmp_path)
    assert "\n" not in str(error.value)
    assert "www.statmt.org" not in no_network


def test_without_network_the_error_soon_names_the_files_to_provide(tmp_path, no_network):
    with pytest.raises(ConnectionError) as error:
        read_tfds("ted_hrlr_translate/pt_to_en", "train", "pt", "en", tmp_path)
    # TFDS's own 11 take over three minutes.
    assert no_network.count("www.phontron.com") == 4
    assert downloader.MAX_RETRIES == 10
    *_, advice, file = str(error.value).splitlines()
    assert f"copy {tmp_path}/ted_hrlr_translate/pt_to_en/1.0.0 from another machine" in advice
    assert advice.endswith(f"under their original names, into {tmp_path}/downloads/manual:")
    assert file == "  http://www.phontron.com/data/qi18naacl-dataset.tar.gz"


def test_multi30k_names_all_its_files(tmp_path, no_network):
    with pytest.raises(ConnectionError) as error:
        read_tfds("multi30k", "train", "en", "de", tmp_path)
    raw = "  https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    assert str(error.value).splitlines()[2:] == [
        f"{raw}/{name}.{language}.gz"
        for name in ("test_2016_flickr", "train", "val")
        for language in ("de", "en", "fr")
    ]


class GoneTranslate(ToyTranslate):
    """A dataset whose file the server no longer has, without a known checksum."""

    name = "gone_translate"
    URL = ""

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(dl_manager.download(self.URL))}


def test_a_refusal_of_the_server_is_reported(tmp_path, monkeypatch):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/gone.gz"
        monkeypatch.setattr(GoneTranslate, "URL", url)
        with pytest.raises(ConnectionError, match=rf"{url}. HTTP code: 501") as error:
            read_tfds("gone_translate", "train", "en", "de", tmp_path)
        server.shutdown()
    assert str(error.value).endswith("gone_translate/1.0.0 from another machine")


@pytest.fixture
def multi30k_dir(tmp_path, monkeypatch):
    """Return where a user without network puts files of Multi30k, here of three lines each."""
    manual_dir = tmp_path / "downloads" / "manual"
    manual_dir.mkdir(parents=True)
    infos = {}
    for url in Multi30k.url_infos:
        name = url.rpartition("/")[2]
        lines = "".join(f"{name.removesuffix('.gz')} {n}\n" for n in range(3))
        (manual_dir / name).write_bytes(data := gzip.compress(lines.encode()))
        infos[url] = checksums.UrlInfo(len(data), hashlib.sha256(data).hexdigest(), name)
    monkeypatch.setattr(Multi30k, "url_infos", infos)
    return manual_dir


def test_files_in_the_manual_directory_need_no_network(tmp_path, multi30k_dir, no_network):
    pairs = read_tfds("multi30k", "validation", "fr", "de", tmp_path)
    assert sorted(pairs) == [(f"val.fr {number}", f"val.de {number}") for number in range(3)]
    for path in multi30k_dir.iterdir():
        path.unlink()
    assert len(read_tfds("multi30k", "test_2016_flickr", "en", "fr", tmp_path)) == 3


def test_a_damaged_file_is_rejected(tmp_path, multi30k_dir, no_network):
    (multi30k_dir / "val.en.gz").write_bytes(gzip.compress(b"another\n"))
    with pytest.raises(ValueError, match=r"multi30k/1\.0\.0 cannot be prepared\. .*val\.en\.gz"):
        read_tfds("multi30k", "train", "en", "de", tmp_path)


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-transformer-mt\[tfds\]'"):
        read_toy(tmp_path)
