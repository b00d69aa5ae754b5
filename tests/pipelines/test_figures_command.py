import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image

from keras_transformer.config import ExperimentConfig
from keras_transformer.training.csv_tables import read_history
from pipelines import figures
from tests.helpers.tensorboard import logged

pytestmark = pytest.mark.slow  # They train a model and export it.

NAMES = {
    *(
        f"{kind}_{style}"
        for kind in ("encoder", "decoder", "cross")
        for style in ("attention", "lines")
    ),
    *("positions", "learning_rate", "training_curves", "steps"),
}


def test_each_figure_is_a_png_an_svg_and_a_tensorboard_image(run, tmp_path, capsys):
    output = tmp_path / "new" / "figures"
    figures.main(["--model", run, "--output", str(output), "one red dog sees"])
    files = {path.name for path in output.iterdir()} - {"tensorboard"}
    assert files == {f"{name}{suffix}" for name in NAMES for suffix in (".png", ".svg")}
    images = logged(output / "tensorboard")
    assert images.keys() == NAMES
    for name in NAMES:
        height, width, _ = image.imread(output / f"{name}.png").shape
        [(_width, _height, png)] = images[name].values()
        assert tf.io.decode_png(png).shape == (height, width, 3)
        svg = ElementTree.parse(output / f"{name}.svg").getroot()
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        inches = [float(svg.get(side).removesuffix("pt")) / 72 for side in ("width", "height")]
        assert inches == pytest.approx([width / 200, height / 200], abs=0.01)
    assert "encoder_attention, encoder_lines, decoder_" in capsys.readouterr().out


@pytest.mark.parametrize("max_length", [9, 130])
def test_learned_positions_are_drawn_for_each_side(max_length):
    from keras_transformer import Transformer
    from keras_transformer.translation import Translator
    from tests.helpers.tiny import tiny_tokenizer

    model = Transformer.from_size(
        "tiny", vocab_size=380, num_layers=1, d_model=8, position="learned", max_length=max_length
    )
    found = dict(figures.position_figures(Translator(model, tiny_tokenizer())))
    assert list(found) == ["source_positions", "target_positions"]
    length = min(max_length, figures.POSITIONS)
    for side in ("source", "target"):
        vectors = getattr(model, f"{side}_position").embeddings.numpy()[:length]
        (image,) = found[f"{side}_positions"].axes[0].images
        assert np.array_equal(image.get_array(), vectors.T)
        assert image.get_clim() == (-abs(vectors).max(), abs(vectors).max())


def test_the_learning_rate_is_drawn_to_the_last_step(run):
    config = ExperimentConfig.from_file(f"{run}/config.yaml")
    figure = dict(figures.training_figures(config, run))["learning_rate"]
    (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2]
    epochs = len(read_history(run)["learning_rate"])
    assert line.get_xdata()[-1] == epochs * 38  # The toy text has 38 batches.


def test_the_layer_of_the_lines_is_chosen(translator):
    found = dict(figures.attention_figures(translator, "one red", layer=1))
    (caption,) = found["cross_lines"].texts
    assert caption.get_text().startswith("Layer 1. Cross-attention: from each target subword")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layer", "2", "one"], "--layer must be 1 to 1 for this model, received 2"),
        (["--layer", "0", "one"], "--layer must be 1 to 1 for this model, received 0"),
        ([" "], "sentence must have at least one word to attend to"),
    ],
)
def test_what_cannot_be_drawn_is_an_error_and_nothing_is_written(options, message, run, tmp_path):
    output = tmp_path / "figures"
    with pytest.raises(SystemExit, match=f"error: {message}"):
        figures.main(["--model", run, "--output", str(output), *options])
    assert not output.exists()


def test_an_exported_model_has_all_figures_but_those_of_its_training(saved_model, tmp_path, capsys):
    figures.main(["--model", saved_model, "--output", str(tmp_path), "one red dog sees"])
    names = {path.stem for path in tmp_path.glob("*.png")}
    assert names == NAMES - {"learning_rate", "steps", "training_curves"}
