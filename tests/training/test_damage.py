"""Damage to each file of a run and of an export: an error that names it, or no difference."""

import shutil
from pathlib import Path

import keras
import pytest

from keras_transformer.export import load_saved_model
from keras_transformer.training import TrainingTransformer, run, train
from keras_transformer.training.csv_tables import read_history, read_metrics
from keras_transformer.training.run_directory import run_facts
from keras_transformer.translation import Translator
from pipelines import serve
from pipelines.cli.errors import explain
from tests.helpers.damage import flip_a_bit
from tests.helpers.experiment import interrupted_in_epoch, leave_scores_out
from tests.helpers.tiny import export_quickly, toy_experiment, toy_sentences, write_toy_text

pytestmark = pytest.mark.slow


def cut_off(path):
    content = path.read_bytes()
    # At the end of a line, if there are lines: what is left of the file is as good as before.
    end = content.rfind(b"\n", 0, len(content) // 2) + 1
    path.write_bytes(content[: end or len(content) // 2])


DAMAGES = {"cut off": cut_off, "flip a bit": flip_a_bit, "delete": Path.unlink}


def check(directory, tmp_path, use):
    """Damage each file of a directory in each way, and check what a use of it then does.

    It returns what it did before, or raises an error that a command prints in one line, with the
    name of the file.

    Returns:
        The files whose damage made an error, and the ways in which it did.
    """
    expected, errors = use(shutil.copytree(directory, tmp_path / "whole" / "1")), {}
    names = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    for name in sorted({*names} - {"README.md", "batching_params.pbtxt"}):  # Nothing reads these.
        for number, (kind, damage) in enumerate(DAMAGES.items()):
            copy = shutil.copytree(directory, tmp_path / f"{number} {Path(name).name}" / "1")
            if not (copy / name).stat().st_size:  # TensorFlow's fingerprint.pb may be empty.
                continue
            damage(copy / name)
            try:
                assert use(copy) == expected, (name, kind)
            except AssertionError:
                raise
            except Exception as error:
                line = explain(error)
                assert line and "\n" not in line, (name, kind, error)
                assert Path(name).name in line.replace("'", ""), (name, kind)
                errors.setdefault(name, []).append(kind)
            shutil.rmtree(copy)
    return errors


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Leave out what takes time: a step adds to a weight, and nothing is translated or drawn."""

    def fit(self, dataset, epochs, initial_epoch, callbacks, **options):
        self.stop_training = False
        callbacks = keras.callbacks.CallbackList(callbacks, model=self)
        self.optimizer.build(self.trainable_variables)
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            callbacks.on_epoch_begin(epoch)
            callbacks.on_train_batch_begin(0)
            self.trainable_weights[0].assign(1.5 * self.trainable_weights[0] + epoch)
            self.optimizer.iterations.assign_add(1)
            callbacks.on_train_batch_end(0, {"loss": 5.0})
            callbacks.on_epoch_end(epoch, {"loss": 5.0})

    with pytest.MonkeyPatch.context() as context:
        context.setattr(TrainingTransformer, "fit", fit)
        leave_scores_out(context)
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    data = write_toy_text(tmp_path_factory.mktemp("text"), train=60)
    return toy_experiment(data, epochs=3, steps_per_epoch=1, average_checkpoints=2)


@pytest.fixture(scope="module")
def interrupted(config, tmp_path_factory):
    """A run that was interrupted when the third epoch had been trained."""
    directory = tmp_path_factory.mktemp("runs") / "interrupted"
    with interrupted_in_epoch(3):
        train(config, directory)
    return directory


@pytest.fixture(scope="module")
def finished(config, interrupted):
    directory = shutil.copytree(interrupted, interrupted.with_name("finished"))
    train(config, directory)
    return directory


def weights_of(model):
    return [weight.tolist() for weight in model.get_weights()]


def test_a_finished_run_is_read_as_it_was_or_not_at_all(finished, tmp_path):
    def use(directory):
        translator, _ = Translator.load(directory), run_facts(directory)
        read_history(directory)
        read_metrics(directory)
        return weights_of(translator.model), translator.tokenizer.model, translator.decoding

    errors = check(finished, tmp_path, use)
    always = ["cut off", "flip a bit", "delete"]
    assert errors["model.keras"] == errors["config.yaml"] == errors["vocabulary.model"] == always
    assert errors["chosen.json"] == ["cut off", "flip a bit"]


def test_an_interrupted_run_goes_on_as_before_or_not_at_all(
    config, interrupted, tmp_path, monkeypatch
):
    fit, last = TrainingTransformer.fit, []
    monkeypatch.setattr(run, "choose_weights", lambda *arguments: last)

    def fit_and_keep(model, *arguments, **options):
        fit(model, *arguments, **options)
        last[:] = weights_of(model)

    monkeypatch.setattr(TrainingTransformer, "fit", fit_and_keep)

    def use(directory):
        weights = [*train(config, directory)]
        assert read_history(directory)["epoch"][-1] == 3
        return weights

    errors = check(interrupted, tmp_path, use)
    always = ["cut off", "flip a bit", "delete"]
    named = {Path(name).name: kinds for name, kinds in errors.items()}
    assert named["config.yaml"] == named["vocabulary.model"] == named["inputs.json"] == always
    # What is missing of encoded text is encoded again.
    assert named["source.ids"] == named["target.offsets"] == ["flip a bit"]
    assert not [name for name in errors if name.startswith("checkpoints") or "csv" in name]


def test_an_export_is_loaded_and_served_as_it_was_or_not_at_all(finished, tmp_path, capsys):
    version = export_quickly(Translator.load(finished), tmp_path / "toy")
    sentences = toy_sentences(3, seed=9)

    def use(directory):
        serve.main.__wrapped__(["--dry-run", "--model", str(directory.parent)])
        return load_saved_model(directory.parent)(sentences)

    errors = check(version, tmp_path, use)
    assert set(errors) - {"SHA256SUMS"} == {
        *("saved_model.pb", "variables/variables.index"),
        *("variables/variables.data-00000-of-00001", "fingerprint.pb"),
        *("assets.extra/export.json", "assets.extra/vocabulary.model"),
        "assets.extra/tf_serving_warmup_requests",
    }
