"""Writers of other formats refuse a position encoding that they don't know.

The formats have fixed positions, so what a writer leaves out changes every translation silently.
"""

import re

import pytest

from keras_transformer import Transformer, Translator
from keras_transformer.export import export_ctranslate2
from keras_transformer.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_transformer.pretrained import save_hugging_face
from pipelines.export import main
from tests.helpers.tiny import tiny_tokenizer


class RotaryPositions(SinusoidalPositionEncoding):
    """A position encoding whose table is not its whole effect."""


class RelativePositions(LearnedPositionEncoding):
    """The same for learned positions."""


def model_of(position):
    sizes = {"num_layers": 1, "d_model": 12, "d_ff": 20, "num_heads": 3}
    options = {"position": position, "layer_norm_epsilon": 1e-5}
    return Transformer.from_size("tiny", vocab_size=380, **sizes, **options)


def new_name():
    """A model whose configuration has a position that was added after the writers."""
    model = model_of("sinusoidal")
    object.__setattr__(model.config, "position", "rotary")
    return model


def new_layer(side, position, layer):
    model = model_of(position)
    layer.build((None, None, 12))
    setattr(model, f"{side}_position", layer)
    return model


UNKNOWN = {
    "a new name": (new_name, "'rotary' with a SinusoidalPositionEncoding"),
    "a new layer of the source": (
        lambda: new_layer("source", "sinusoidal", RotaryPositions()),
        "'sinusoidal' with a RotaryPositions",
    ),
    "a new layer of the target": (
        lambda: new_layer("target", "learned", RelativePositions(8)),
        "'learned' with a RelativePositions",
    ),
    "the layer of another name": (
        lambda: new_layer("target", "sinusoidal", LearnedPositionEncoding(8)),
        "'sinusoidal' with a LearnedPositionEncoding",
    ),
}


WRITERS = {"ctranslate2": export_ctranslate2, "hugging_face": save_hugging_face}
"""By the `--format` of the command `export`."""


def test_the_writers_here_are_all_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.search(r"--format \{([\w,]+)\}", capsys.readouterr().out)
    assert {*listed.group(1).split(",")} == {"saved_model", *WRITERS}


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.parametrize("name", WRITERS)
def test_an_unknown_position_encoding_is_refused(name, case, tmp_path):
    if name == "hugging_face":
        pytest.importorskip("safetensors", reason="safetensors is not installed")
    make_model, message = UNKNOWN[case]
    translator = Translator(make_model(), tiny_tokenizer())
    with pytest.raises(ValueError, match=message):
        WRITERS[name](translator, tmp_path / "written")
    assert list(tmp_path.iterdir()) == []
