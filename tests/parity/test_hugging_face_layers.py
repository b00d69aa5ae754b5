"""Hidden states of BERT and GPT-2 in our layers: proof that their options are the right ones."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import Decoder, Encoder, LearnedPositionEncoding, TokenEmbedding
from keras_transformer.layers.residual import LayerNorm

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = pytest.mark.parity

V, D, D_FF, H, LAYERS, LENGTH = 50, 24, 40, 3, 2, 11
IDS = np.array([[7, 8, 9, 10, 11], [12, 13, 14, 1, 1]])
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def array(parameter):
    return parameter.detach().numpy()


def set_linear(layer, name, kernel, bias):
    getattr(layer, f"{name}_kernel").assign(kernel)
    getattr(layer, f"{name}_bias").assign(bias)


def set_norm(layer, theirs):
    layer.gamma.assign(array(theirs.weight))
    layer.beta.assign(array(theirs.bias))


def randomize(theirs):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in theirs.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.1 * noise)
    return theirs.eval()


def test_bert():
    config = transformers.BertConfig(
        vocab_size=V,
        hidden_size=D,
        num_hidden_layers=LAYERS,
        num_attention_heads=H,
        intermediate_size=D_FF,
        max_position_embeddings=LENGTH,
    )
    theirs = randomize(transformers.BertModel(config, add_pooling_layer=False))

    tokens = TokenEmbedding(V, D, scale=1.0)
    positions = LearnedPositionEncoding(LENGTH)
    norm = LayerNorm(epsilon=1e-12)
    encoder = Encoder(
        LAYERS, D, D_FF, H, activation="gelu", use_bias=True, layer_norm_epsilon=1e-12
    )
    for layer in (positions, norm, encoder):
        layer.build((None, None, D))
    tokens.build((None, None))
    embeddings = theirs.embeddings
    tokens.embeddings.assign(array(embeddings.word_embeddings.weight))
    segment = array(embeddings.token_type_embeddings.weight)[0]
    positions.embeddings.assign(array(embeddings.position_embeddings.weight) + segment)
    set_norm(norm, embeddings.LayerNorm)
    for ours, layer in zip(encoder.layers, theirs.encoder.layer, strict=True):
        attention = layer.attention
        for name in ("query", "key", "value"):
            linear = getattr(attention.self, name)
            set_linear(ours.self_attention, name, array(linear.weight).T, array(linear.bias))
        linears = (
            (ours.self_attention, "output", attention.output.dense),
            (ours.feed_forward, "inner", layer.intermediate.dense),
            (ours.feed_forward, "outer", layer.output.dense),
        )
        for part, name, linear in linears:
            set_linear(part, name, array(linear.weight).T, array(linear.bias))
        set_norm(ours.self_attention_residual.layer_norm, attention.output.LayerNorm)
        set_norm(ours.feed_forward_residual.layer_norm, layer.output.LayerNorm)

    x = norm(positions(tokens(IDS)))
    received = encoder(x, MASK[:, None] == 1)
    with torch.no_grad():
        expected = theirs(torch.tensor(IDS), torch.tensor(MASK)).last_hidden_state.numpy()
    is_token = MASK == 1
    received = ops.convert_to_numpy(received)
    np.testing.assert_allclose(received[is_token], expected[is_token], atol=1e-5)


def test_gpt2():
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=D, n_layer=LAYERS, n_head=H, n_inner=D_FF, n_positions=LENGTH
    )
    theirs = randomize(transformers.GPT2Model(config))

    tokens = TokenEmbedding(V, D, scale=1.0)
    positions = LearnedPositionEncoding(LENGTH)
    decoder = Decoder(
        LAYERS,
        D,
        D_FF,
        H,
        norm="pre",
        activation=lambda x: keras.activations.gelu(x, approximate=True),
        use_bias=True,
        layer_norm_epsilon=1e-5,
    )
    for layer in (positions, decoder):
        layer.build((None, None, D))
    tokens.build((None, None))
    tokens.embeddings.assign(array(theirs.wte.weight))
    positions.embeddings.assign(array(theirs.wpe.weight))
    set_norm(decoder.final_norm, theirs.ln_f)
    for ours, layer in zip(decoder.layers, theirs.h, strict=True):
        kernels = np.split(array(layer.attn.c_attn.weight), 3, axis=1)
        biases = np.split(array(layer.attn.c_attn.bias), 3)
        for name, kernel, bias in zip(("query", "key", "value"), kernels, biases, strict=True):
            set_linear(ours.self_attention, name, kernel, bias)
        linears = (
            (ours.self_attention, "output", layer.attn.c_proj),
            (ours.feed_forward, "inner", layer.mlp.c_fc),
            (ours.feed_forward, "outer", layer.mlp.c_proj),
        )
        for part, name, linear in linears:
            set_linear(part, name, array(linear.weight), array(linear.bias))
        set_norm(ours.self_attention_residual.layer_norm, layer.ln_1)
        set_norm(ours.feed_forward_residual.layer_norm, layer.ln_2)

    received = ops.convert_to_numpy(decoder(positions(tokens(IDS))))
    with torch.no_grad():
        expected = theirs(torch.tensor(IDS)).last_hidden_state.numpy()
    np.testing.assert_allclose(received, expected, atol=1e-5)
