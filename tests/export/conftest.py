import contextlib
from types import SimpleNamespace

import pytest
import tensorflow as tf

from keras_transformer.export import export_saved_model
from keras_transformer.export.signatures import METHODS
from tests.helpers.shared import shared
from tests.helpers.tiny import export_quickly, saved_graph, tiny_translator

FACTS = {
    "description": "Letters, to be *spelled*.",
    "command": "python -m pipelines.export --checkpoint 'runs/en de'",
    "scores": {"bleu": 37.7, "signature": "nrefs:1|case:mixed|eff:no|tok:13a"},
}


SEARCH = {"beam_size": 3, "extra_length": 6, "max_source_length": 24, "num_hypotheses": 2}
NAME = "toy model"


@pytest.fixture(scope="session")
def exported():
    """A `translator`, the `version` it was exported to, and the given `facts`."""
    translator = tiny_translator(**SEARCH)
    made = shared("exported", lambda folder: export_saved_model(translator, folder / NAME, FACTS))
    return SimpleNamespace(translator=translator, version=made / NAME / "1", facts=FACTS)


@pytest.fixture(scope="session")
def described():
    """The same for a model of one layer, whose warm-up requests have not run."""
    translator = tiny_translator(num_layers=1, **SEARCH)
    translator.origin = {"license": "MIT"}

    def make(folder):
        export_quickly(translator, folder / NAME, FACTS, METHODS)

    version = shared("described", make) / NAME / "1"
    return SimpleNamespace(translator=translator, version=version, facts=FACTS)


@pytest.fixture(scope="session")
def graph(exported):
    """The content of saved_model.pb: `nodes`, including those of `functions`, and `signatures`."""
    return saved_graph(exported.version)


@contextlib.contextmanager
def session(version):
    """Run signatures as a model server does: `run(name, text=[...])` returns the outputs."""
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():  # Not for the tests: the fixture below outlives them.
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))

    def run(signature, **inputs):
        about = loaded.signature_def[signature]
        outputs = {key: output.name for key, output in about.outputs.items()}
        return session.run(outputs, {about.inputs[key].name: v for key, v in inputs.items()})

    yield run
    session.close()


@pytest.fixture(scope="session")
def serve(exported):
    """Run a signature of the exported model."""
    with session(exported.version) as run:
        yield run
