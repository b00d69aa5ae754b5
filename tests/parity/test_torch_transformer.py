"""Compare our layers, model and loss with `torch.nn.Transformer` with the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import BOS_ID, PAD_ID
from keras_transformer.layers.residual import NORM_EPSILON
from keras_transformer.losses import LabelSmoothedCrossEntropy
from tests.helpers.foreign_weights import (
    Pair,
    copy_weights,
    embedding_pair,
    feed_forward_pairs,
    norm_pairs,
)
from tests.helpers.layer_checks import randomize

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

B, S, T, V = 3, 7, 5, 17
LAYERS, D, FF, HEADS, MAX_LENGTH = 2, 12, 20, 3, 9
SIZES = {"num_layers": LAYERS, "d_model": D, "d_ff": FF, "num_heads": HEADS, "dropout": 0.0}
EPSILON = 0.1
IS_LATER = torch.ones(T, T, dtype=torch.bool).triu(1)  # Their masks are True where ours are False.

pytestmark = [
    pytest.mark.parity,
    # PyTorch warns that it will not use a faster path for inference.
    pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning"),
]


class TorchModel(torch.nn.Module):
    """`torch.nn.Transformer` with embeddings, positions and logits, which it lacks."""

    def __init__(self, config, sinusoids):
        super().__init__()
        self.source, self.target = (torch.nn.Embedding(V, D) for _ in range(2))
        self.source_position, self.target_position = (
            torch.nn.Embedding(MAX_LENGTH, D) for _ in range(2)
        )
        self.stacks = torch_stacks(config.norm)
        self.output = torch.nn.Linear(D, V, bias=False)
        if config.share_embeddings == "all":
            self.target, self.output.weight = self.source, self.source.weight
        if config.position == "sinusoidal":
            for position in (self.source_position, self.target_position):
                position.weight = torch.nn.Parameter(sinusoids, requires_grad=False)

    def forward(self, source, target):
        outputs = self.stacks(
            self.source(source) * D**0.5 + self.source_position.weight[:S],
            self.target(target) * D**0.5 + self.target_position.weight[:T],
            tgt_mask=IS_LATER,
            src_key_padding_mask=source == PAD_ID,
            tgt_key_padding_mask=target == PAD_ID,
            memory_key_padding_mask=source == PAD_ID,
        )
        return self.output(outputs)


def torch_stacks(norm):
    stacks = torch.nn.Transformer(
        d_model=D,
        nhead=HEADS,
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        dim_feedforward=FF,
        dropout=0.0,
        layer_norm_eps=NORM_EPSILON,
        batch_first=True,
        norm_first=norm == "pre",
    )
    if norm == "post":
        # Theirs normalizes once more after the last layer, which has already done so.
        stacks.encoder.norm = stacks.decoder.norm = None
    return stacks


def attention_pairs(ours, theirs):
    for part, name in enumerate(("query", "key", "value")):
        yield Pair(
            getattr(ours, f"{name}_kernel"),
            theirs.in_proj_weight,
            lambda array, part=part: np.split(array, 3)[part].T,
        )
    yield Pair(ours.output_kernel, theirs.out_proj.weight, np.transpose)


def stack_pairs(ours, theirs):
    """Pair the weights of two encoders, or of two decoders."""
    for layer, other in zip(ours.layers, theirs.layers, strict=True):
        yield from attention_pairs(layer.self_attention, other.self_attn)
        residuals = [layer.self_attention_residual]
        if hasattr(layer, "cross_attention"):
            yield from attention_pairs(layer.cross_attention, other.multihead_attn)
            residuals.append(layer.cross_attention_residual)
        yield from feed_forward_pairs(layer.feed_forward, other.linear1, other.linear2)
        residuals.append(layer.feed_forward_residual)
        for i, residual in enumerate(residuals, 1):
            yield from norm_pairs(residual.layer_norm, getattr(other, f"norm{i}"))
    if ours.final_norm is not None:
        yield from norm_pairs(ours.final_norm, theirs.norm)


def model_pairs(ours, theirs):
    yield embedding_pair(ours.source_embedding, theirs.source)
    if ours.config.share_embeddings == "none":
        yield embedding_pair(ours.target_embedding, theirs.target)
        yield embedding_pair(ours.output_embedding, theirs.output)
    if ours.config.position == "learned":
        yield embedding_pair(ours.source_position, theirs.source_position)
        yield embedding_pair(ours.target_position, theirs.target_position)
    yield from stack_pairs(ours.encoder, theirs.stacks.encoder)
    yield from stack_pairs(ours.decoder, theirs.stacks.decoder)


def padded_ids(*lengths):
    """Return random ids of sentences of these lengths, padded."""
    ids = np.random.randint(4, V, size=(len(lengths), max(lengths)))
    return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], ids, PAD_ID)


def assert_close(received, expected):
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "variant",
    [
        {"norm": "post", "share_embeddings": "all", "position": "sinusoidal"},
        {"norm": "pre", "share_embeddings": "none", "position": "learned"},
    ],
    ids=["paper", "variant"],
)
def test_a_training_step_has_their_logits_loss_and_gradients(variant):
    config = TransformerConfig(vocab_size=V, max_length=MAX_LENGTH, **SIZES, **variant)
    ours = Transformer(config)
    randomize(ours)
    # PyTorch has no sinusoids; test_marian.py compares ours with Marian's.
    theirs = TorchModel(config, torch.tensor(ours.source_position.encoding(MAX_LENGTH).numpy()))
    pairs = copy_weights(ours, theirs, model_pairs(ours, theirs))
    source, labels = padded_ids(4, S, 6), padded_ids(T, 2, 4)
    is_token = labels != PAD_ID
    target = np.where(is_token, np.roll(labels, 1, axis=1), PAD_ID)
    target[:, 0] = BOS_ID

    their_logits = theirs(torch.tensor(source), torch.tensor(target))
    their_loss = torch.nn.functional.cross_entropy(
        their_logits.flatten(0, 1),
        torch.tensor(labels).flatten(),
        ignore_index=PAD_ID,
        label_smoothing=EPSILON,
    )
    their_loss.backward()
    with tf.GradientTape() as tape:
        logits = ours({"source": source, "target": target}, training=True)
        loss = LabelSmoothedCrossEntropy(EPSILON)(labels, logits)
    gradients = tape.gradient(loss, [pair.ours.value for pair in pairs])

    # Outputs at padding of the target differ: no token sees them, so ours does not mask them.
    assert_close(logits[is_token], their_logits.detach()[is_token])
    logits = ours({"source": source, "target": target}, training=False)
    assert_close(logits[is_token], their_logits.detach()[is_token])
    assert float(loss) == pytest.approx(their_loss.item(), abs=1e-5)
    for (variable, parameter, to_ours), gradient in zip(pairs, gradients, strict=True):
        expected = to_ours(parameter.grad.numpy())
        assert np.abs(expected).max() > 1e-3, f"any small gradient of {variable.path} would pass"
        assert_close(tf.convert_to_tensor(gradient), expected)
