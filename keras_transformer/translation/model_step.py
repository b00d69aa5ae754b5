"""A model as the step function of a search: one position of all beams, over a cache."""

import keras
import tensorflow as tf

from keras_transformer.decoding import Select, Stages, State, take_rows
from keras_transformer.layers.cpu_kernels import few_rows_logits, linear
from keras_transformer.layers.masks import mask_bias
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
    continues another sees what that one saw. What is computed of the weights and the
    sources alone is computed before the first step.

    Args:
        model: a `Transformer`.
        source: int32 [B, S], the ids of the sentences, padded. If B is known to be 1 and there are
            no `sizes`, a step has the operations that suit a single sentence, and it must have no
            padding.
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
        self.batch = source.shape[0] or tf.shape(source)[0]
        self.sizes = sizes
        self.is_alone = sizes is None and source.shape[0] == 1
        memory, mask = model.encode(source, training=False, is_padded=not self.is_alone)
        memory_bias = None if mask is None else mask_bias(mask)
        self.memory = model.decoder.project_memory(memory), memory_bias
        self.positions = tf.cast(model.target_position.encoding(max_length), tf.float32)
        self.logit_bias = logit_bias
        if self.is_alone:
            kernels = kernels[0] if kernels else model.decoder.join_projections(), None
        self.projections, self.output_kernel = kernels or step_kernels(model)

    @property
    def stages(self) -> Stages | None:
        """The stages that the search is to be given."""
        return None if self.sizes is None else Stages(self.sizes, self._enlarge)

    @property
    def select(self) -> Select | None:
        """How the search is to let go of sentences that have ended."""
        return None if self.is_alone or self.sizes is not None else take_rows

    def initial_state(self) -> State:
        """Return the state before the first step: an empty cache, and what each beam sees of it.

        Where sentences may be let go, it has what is known of them, which no step changes, too.
        """
        visible = tf.zeros([self.batch, self.beam_size, 0], tf.bool)
        # A single beam sees all, and needs none; see `greedy_search` on what loops leave as it is.
        return (
            self.model.decoder.empty_cache(self.batch),
            visible if self.beam_size > 1 else (),
            self.memory if self.select else (),
        )

    def __call__(self, ids, parents, position, state):
        cache, visible, memory = state
        if self.is_alone:  # The loop of a search forgets how many rows there are.
            ids.set_shape([self.beam_size])
            for tensor in tf.nest.flatten(cache):
                tensor.set_shape([1, *tensor.shape[1:]])
        memory_heads, memory_bias = memory or self.memory
        if self.beam_size == 1:
            mask = None if self.sizes is None else self._is_written(cache, position)
        else:
            mask = visible = self._see(visible, parents, position)
        x = self._embed(ids)
        # The sum is rounded once, as in training.
        x = tf.cast(tf.cast(x, tf.float32) + tf.gather(self.positions, position), x.dtype)
        x, cache = self.model.decoder.step(
            x,
            memory_heads,
            memory_bias,
            cache,
            write=lambda cached, heads: self._write(cached, heads, position),
            projections=self.projections,
            self_bias=None if mask is None else mask_bias(mask),
        )
        logits = tf.cast(self._project(x), tf.float32)
        if self.logit_bias is not None:
            logits += self.logit_bias
        return logits, (cache, visible, memory)

    def _embed(self, ids):
        # `ops.take` has three more operations, for ids that count from the end.
        embedding = self.model.target_embedding
        return embedding.scale(tf.gather(embedding.embeddings, ids))

    def _project(self, x):
        if self.is_alone:
            embeddings = self.model.output_embedding.embeddings
            return few_rows_logits(x, tf.cast(embeddings, x.dtype))
        return linear(x, self.output_kernel)

    def _write(self, cached, heads, position):
        """Add the heads [B, H, N, K] of a position to the keys or the values of a layer."""
        if self.sizes is None:
            return tf.concat([cached, heads], axis=2)
        return keras.ops.slice_update(cached, (0, 0, position * self.beam_size, 0), heads)

    def _see(self, visible, parents, position):
        """Let each beam see what its parent saw and its own token: [B, N, P], longer or filled."""
        parents = tf.reshape(parents % self.beam_size, [-1, self.beam_size])
        visible = tf.gather(visible, parents, batch_dims=1)
        own = tf.eye(self.beam_size, dtype=tf.bool)
        if self.sizes is None:
            own |= tf.zeros_like(parents, tf.bool)[:, :, tf.newaxis]
            return tf.concat([visible, own], axis=2)
        own = tf.tile(own, [1, visible.shape[2] // self.beam_size])
        is_now = tf.range(visible.shape[2]) // self.beam_size == position
        return visible | (own & is_now)

    def _is_written(self, cache, position):
        return (tf.range(cache[0][0].shape[2]) <= position)[tf.newaxis, tf.newaxis]

    def _enlarge(self, state, size):
        def pad(tensor, axis):
            missing = size * self.beam_size - tensor.shape[axis]
            return tf.pad(tensor, [[0, missing if i == axis else 0] for i in range(tensor.ndim)])

        cache, visible, memory = state
        visible = pad(visible, 2) if self.beam_size > 1 else ()
        return [tuple(pad(part, 2) for part in layer) for layer in cache], visible, memory
