"""A model as the step function of a search: one position of all beams, over a cache."""

import keras
import tensorflow as tf

from keras_transformer.decoding import Stages, State
from keras_transformer.layers.linear import linear
from keras_transformer.model import Transformer


def step_kernels(model: Transformer) -> tuple:
    """Return what `ModelStep` makes of the weights: joined projections, the embedding transposed.

    Nothing in it depends on a sentence. To make it takes a tenth of the time in which a compiled
    search translates a single one.
    """
    return model.decoder.join_projections(), tf.transpose(model.output_embedding.embeddings)


class ModelStep:
    """Gives a search the next token's logits: `decoding.Step` for a model and its sources.

    The tokens of a sentence's beams lie in one cache, which is never re-ordered: a beam that
    continues another only learns to see what that one saw. What is the same at every step, the
    weights among it, is computed before the first.

    Args:
        model: a `Transformer`.
        source: int32 [B, S], the ids of the sentences, padded.
        beam_size: N.
        max_length: the most tokens of a translation, an int or a scalar tensor.
        logit_bias: float32 [V], added to the logits, or None.
        sizes: for a compiled graph, the sizes of its cache: the `sizes` of `decoding.Stages`.
        kernels: what `step_kernels` returned for the model, if it has been called before.

    >>> model = Transformer.from_preset("tiny", vocab_size=50, num_layers=1)
    >>> step = ModelStep(model, tf.constant([[7, 8, 3], [9, 3, 0]]), beam_size=1, max_length=6)
    >>> logits, state = step(tf.constant([2, 2]), tf.range(2), tf.constant(0), step.initial_state())
    >>> tuple(logits.shape)
    (2, 50)
    """

    def __init__(
        self,
        model: Transformer,
        source: tf.Tensor,
        beam_size: int,
        max_length: int | tf.Tensor,
        logit_bias: tf.Tensor | None = None,
        sizes: tuple[int, ...] | None = None,
        kernels: tuple | None = None,
    ):
        self.model = model
        self.beam_size = beam_size
        self.batch = tf.shape(source)[0]
        self.sizes = sizes
        memory, self.memory_mask = model.encode(source, training=False)
        self.memory_heads = model.decoder.project_memory(memory)
        self.positions = tf.cast(model.target_position.encoding(max_length), tf.float32)
        self.logit_bias = logit_bias
        self.own = tf.tile(tf.eye(beam_size, dtype=tf.bool), [self.batch, 1])  # [B * N, N]
        embeddings = [model.target_embedding, model.output_embedding]
        variables = [v for layer in (model.decoder, *embeddings) for v in layer.weights]
        self.weights = [(variable, tf.convert_to_tensor(variable)) for variable in variables]
        kernels = tf.nest.map_structure(_as_tensor, kernels or step_kernels(model))
        self.projections, self.output_kernel = kernels

    @property
    def stages(self) -> Stages | None:
        """The stages that the search is to be given."""
        return None if self.sizes is None else Stages(self.sizes, self._enlarge)

    def initial_state(self) -> State:
        """Return the state before the first step: an empty cache, and what each beam sees of it."""
        visible = tf.zeros([self.batch * self.beam_size, 0], tf.bool)
        # A single beam sees all, and needs none; see `greedy_search` on what loops leave as it is.
        return self.model.decoder.empty_cache(self.batch), visible if self.beam_size > 1 else ()

    def __call__(self, ids, parents, position, state):
        cache, visible = state
        if self.beam_size == 1:
            mask = None if self.sizes is None else self._is_written(cache, position)
        else:
            visible = self._see(tf.gather(visible, parents), position)
            mask = tf.reshape(visible, [-1, self.beam_size, tf.shape(visible)[1]])
        with keras.StatelessScope(state_mapping=self.weights):
            x = self.model.target_embedding(ids)
            # The sum is rounded once, as in training.
            x = tf.cast(tf.cast(x, tf.float32) + tf.gather(self.positions, position), x.dtype)
            x, cache = self.model.decoder.step(
                x,
                self.memory_heads,
                self.memory_mask,
                cache,
                write=lambda cached, heads: self._write(cached, heads, position),
                projections=self.projections,
                visible=mask,
            )
        logits = tf.cast(linear(x, self.output_kernel), tf.float32)
        if self.logit_bias is not None:
            logits += self.logit_bias
        return logits, (cache, visible)

    def _write(self, cached, heads, position):
        """Add the heads [B, H, N, K] of a position to the keys or the values of a layer."""
        if self.sizes is None:
            return tf.concat([cached, heads], axis=2)
        return keras.ops.slice_update(cached, (0, 0, position * self.beam_size, 0), heads)

    def _see(self, visible, position):
        """Let each beam see its own token too: [B * N, P] grown or, in fixed size, filled."""
        if self.sizes is None:
            return tf.concat([visible, self.own], axis=1)
        own = tf.tile(self.own, [1, visible.shape[1] // self.beam_size])
        is_now = tf.range(visible.shape[1]) // self.beam_size == position
        return visible | (own & is_now)

    def _is_written(self, cache, position):
        return (tf.range(cache[0][0].shape[2]) <= position)[tf.newaxis, tf.newaxis]

    def _enlarge(self, state, size):
        def pad(tensor, axis):
            missing = size * self.beam_size - tensor.shape[axis]
            return tf.pad(tensor, [[0, missing if i == axis else 0] for i in range(tensor.ndim)])

        cache, visible = state
        visible = pad(visible, 1) if self.beam_size > 1 else ()
        return [tuple(pad(part, 2) for part in layer) for layer in cache], visible


def _as_tensor(kernel):
    return None if kernel is None else tf.convert_to_tensor(kernel)
