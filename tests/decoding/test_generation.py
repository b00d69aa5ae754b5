import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import layers
from keras_transformer.decoding import generate
from tests.helpers.layer_checks import randomize

V, EOS = 11, 3


@pytest.fixture(scope="module")
def model():
    """Return a decoder-only model whose next token depends on all tokens and their order."""
    ids = keras.Input((None,), dtype="int32")
    embedding = layers.TokenEmbedding(V, 8)
    x = layers.SinusoidalPositionEncoding()(embedding(ids))
    x = layers.Decoder(num_layers=2, d_model=8, d_ff=16, num_heads=2)(x)
    model = keras.Model(ids, embedding(x, reverse=True))
    randomize(model)
    embeddings = np.array(embedding.embeddings)
    embeddings[EOS] *= 2
    embedding.embeddings.assign(embeddings)
    return model


def by_hand(model, prompt, max_length):
    """Continue one prompt greedily, with nothing but calls of the model."""
    text = list(prompt)
    while len(text) < max_length:
        logits = model(np.array([text]))[0, -1].numpy()
        logits[0] = -np.inf
        text.append(int(logits.argmax()))
        if text[-1] == EOS:
            break
    return text


PROMPTS = [[2], [2, 7, 5], [2, 9], [4, 4, 4, 4, 8], [2, EOS, 6]]


def without_padding(ids):
    return [[token for token in row if token] for row in ids.numpy().tolist()]


def test_greedy_texts_are_those_of_repeated_calls(model):
    expected = [by_hand(model, prompt, 12) for prompt in PROMPTS]
    assert len({len(text) for text in expected}) > 1  # Some end in eos before the limit.
    assert without_padding(generate(model, PROMPTS, 12)) == expected


def test_prompts_may_be_lists_ragged_or_padded(model):
    ragged = tf.ragged.constant(PROMPTS)
    expected = without_padding(generate(model, PROMPTS, 8))
    padded = ragged.to_tensor()
    for prompt in (ragged, padded, padded.numpy(), padded.numpy().tolist()):
        assert without_padding(generate(model, prompt, 8)) == expected
    assert generate(model, [[2, 5], [2, 6]], 3).shape == (2, 3)


def test_a_row_of_samples_depends_on_its_seed_and_not_on_the_other_rows(model):
    def draw(prompts, **options):
        return without_padding(generate(model, prompts, 10, temperature=1.0, **options))

    assert draw(PROMPTS, seed=1) == draw(PROMPTS, seed=1) != draw(PROMPTS, seed=2)
    assert draw(PROMPTS[:2], seed=1) == draw(PROMPTS, seed=1)[:2]
    assert len(set(map(tuple, draw([[2]] * 20)))) > 1
    greedy = without_padding(generate(model, PROMPTS, 10))
    assert draw(PROMPTS, top_k=1) == draw(PROMPTS, top_p=1e-6) == greedy


def test_padding_may_be_the_end():
    def count(ids):
        return tf.one_hot(tf.minimum(ids + 1, 9), 10)

    ids = generate(count, [[5], [8]], max_length=6, eos_id=9, pad_id=9)
    assert ids.numpy().tolist() == [[5, 6, 7, 8, 9], [8, 9, 9, 9, 9]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": [[2], []]}, "from 1 to max_length - 1 = 4 tokens, received lengths 0 to 1"),
        ({"prompt": [[2] * 5]}, "received lengths 5 to 5"),
        ({"prompt": [2, 5]}, r"must be a list of lists of ids, received \[2, 5\]"),
        ({"prompt": [["2"]]}, r"must be a list of lists of ids, received \[\['2'\]\]"),
        ({"prompt": [[2.5]]}, r"must be a list of lists of ids, received \[\[2.5\]\]"),
        ({"prompt": np.array([[0, 2]])}, "padded on the right, received 0 before a token"),
        ({"prompt": np.array([2, 5])}, r"must be ids \[B, P\], received shape \(2,\)"),
        ({"top_k": 3}, "top_k and top_p need a temperature"),
        ({"temperature": -1.0}, "temperature must be between 0.001 and 100, received -1.0"),
        ({"model": lambda ids: tf.zeros([1, V])}, r"must return logits \[B, T, V\]"),
    ],
)
def test_mistakes_are_refused(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        generate(**{"model": model, "prompt": [[2]], "max_length": 5, **arguments})
