"""A model as the step function of a search: one position of all beams, with a cache."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.decoding.search import BAN, Select, Stages, State, take_rows
from keras_transformer.layers import Decoder
from keras_transformer.layers.masks import mask_bias, padding_mask
from keras_transformer.model import Transformer
from keras_transformer.translation.cached_step import (
    LayerWeights,
    check_decoder,
    decoder_step,
    empty_cache,
    encode_sentence,
    few_rows_logits,
    has_plain_encoder,
    join_projections,
    layer_weights,
    multiply_rows,
    project_memory,
)


class PreparedWeights(NamedTuple):
    """Weights of a model in the layout of its steps; see `prepare_weights`.

    Attributes:
        projections: For each decoder layer, the joined projections of its self-attention.
        output_kernel: float [D, V], the transposed output embedding, or None for single sentences,
            which need no transposed copy.
    """

    projections: Any
    output_kernel: Any


def prepare_weights(model: Transformer, single_sentence: bool = False) -> PreparedWeights:
    """Return copies of weights in the layout that `ModelStep` multiplies with.

    They do not depend on the sentences. Preparing them takes a tenth of the time in which a
    compiled search translates a single sentence.

    Args:
        model: A `Transformer`.
        single_sentence: Whether the step is made with `single_sentence`.
    """
    projections = [join_projections(layer.self_attention) for layer in model.decoder.layers]
    if single_sentence:
        return PreparedWeights(projections, output_kernel=None)
    return PreparedWeights(projections, tf.transpose(model.output_embedding.kernel("embeddings")))


class DecoderStep:
    """Returns the logits of the next token: a `decoding.Step` for a stack of decoder layers.

    The beams of a sentence share one cache of keys and values, which is never reordered: a beam
    that continues another one attends to what that one attended to. With a `Decoder` that was built
    without memory, it is the step of a decoder-only language model.

    Args:
        decoder: A `Decoder`.
        embed: `embed(ids, position) -> rows`, from int32 [R] and a scalar to float [R, D].
        project: `project(rows) -> logits`, from float [R, D] to [R, V].
        batch: B, the number of sentences, an int or a scalar tensor.
        beam_size: N.
        memory: float [B, S, D], what the decoder attends to, if it was built with a memory.
        memory_mask: bool [B, 1, S], or None.
        weights: The weights of each layer, if they are known already; see `LayerWeights`.
        stage_lengths: The `lengths` of `Stages`, for a graph of fixed shapes. By default,
            the cache grows by concatenation.
        drops_sentences: Whether the search may drop finished sentences, in a graph of variable
            shapes.
        device: "cpu", or "gpu" for operations that suit a GPU.

    Raises:
        ValueError: If a subclass overrides the `call` of the decoder or of a part of it.

    >>> decoder = Decoder(num_layers=1, d_model=8, d_ff=16, num_heads=2)
    >>> decoder.build((None, None, 8))
    >>> table = tf.random.normal([50, 8])
    >>> embed = lambda ids, position: tf.gather(table, ids)
    >>> step = DecoderStep(decoder, embed, lambda x: tf.matmul(x, table, transpose_b=True), batch=2)
    >>> logits, state = step(tf.constant([2, 2]), tf.range(2), tf.constant(0), step.initial_state())
    >>> tuple(logits.shape)
    (2, 50)
    """

    def __init__(
        self,
        decoder: Decoder,
        embed: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        project: Callable[[tf.Tensor], tf.Tensor],
        batch: int | tf.Tensor,
        *,
        beam_size: int = 1,
        memory: tf.Tensor | None = None,
        memory_mask: tf.Tensor | None = None,
        weights: Sequence[LayerWeights] | None = None,
        stage_lengths: tuple[int, ...] | None = None,
        drops_sentences: bool = True,
        device: str = "cpu",
    ):
        check_decoder(decoder)
        self.decoder = decoder
        self.embed = embed
        self.project = project
        self.batch = batch
        self.beam_size = beam_size
        self.device = device
        # In a state, "nothing" is (), as None would be a leaf.
        memory_bias = () if memory_mask is None else mask_bias(memory_mask)
        self.memory = project_memory(decoder, memory), memory_bias
        self.weights = (
            [layer_weights(layer) for layer in decoder.layers] if weights is None else weights
        )
        self.stage_lengths = stage_lengths
        self.stages = None if stage_lengths is None else Stages(stage_lengths, self._enlarge)
        """The `stages` of the search."""
        self.drops_sentences = drops_sentences and stage_lengths is None
        self.select: Select | None = take_rows if self.drops_sentences else None
        """The `select` of the search: how it drops finished sentences."""
        self._has_static_rows = isinstance(batch, int) and not drops_sentences

    def initial_state(self) -> State:
        """Return the state before the first step.

        It is the empty cache, the keys that each beam may attend to, bool [B, N, P], and the
        projected memory. Parts that are not needed are (): a single beam attends to all keys, and
        the memory is constant if no sentence is dropped.
        """
        visible = tf.zeros([self.batch, self.beam_size, 0], tf.bool)
        return (
            empty_cache(self.decoder, self.batch),
            visible if self.beam_size > 1 else (),
            self.memory if self.drops_sentences else (),
        )

    def __call__(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Return the logits float32 [B * N, V] of the next token, and the state; see `Step`."""
        cache, visible, memory = state
        if self._has_static_rows:  # The loop of a search does not keep the number of rows.
            ids.set_shape([self.batch * self.beam_size])
            for tensor in tf.nest.flatten(cache):
                tensor.set_shape([self.batch, *tensor.shape[1:]])
        memory_heads, memory_bias = memory or self.memory
        if self.beam_size == 1:
            mask = None if self.stage_lengths is None else self._is_written(cache, position)
        else:
            mask = visible = self._see(visible, parents, position)
        x, cache = decoder_step(
            self.decoder,
            self.weights,
            self.embed(ids, position),
            memory_heads,
            None if isinstance(memory_bias, tuple) else memory_bias,
            cache,
            write=lambda cached, heads: self._write(cached, heads, position),
            self_bias=None if mask is None else mask_bias(mask),
            device=self.device,
        )
        return tf.cast(self.project(x), tf.float32), (cache, visible, memory)

    def _write(self, cached, heads, position):
        """Add the heads [B, H, N, K] of a position to the keys or the values of a layer."""
        if self.stage_lengths is None:
            return tf.concat([cached, heads], axis=2)
        return keras.ops.slice_update(cached, (0, 0, position * self.beam_size, 0), heads)

    def _see(self, visible, parents, position):
        """Return the keys [B, N, P] that each beam may attend to: its parent's and its own."""
        parents = tf.reshape(parents % self.beam_size, [-1, self.beam_size])
        visible = tf.gather(visible, parents, batch_dims=1)
        own = tf.eye(self.beam_size, dtype=tf.bool)
        if self.stage_lengths is None:
            own |= tf.zeros_like(parents, tf.bool)[:, :, tf.newaxis]
            return tf.concat([visible, own], axis=2)
        own = tf.tile(own, [1, visible.shape[2] // self.beam_size])
        is_now = tf.range(visible.shape[2]) // self.beam_size == position
        return visible | (own & is_now)

    def _is_written(self, cache, position):
        return (tf.range(cache[0][0].shape[2]) <= position)[tf.newaxis, tf.newaxis]

    def _enlarge(self, state, length):
        def pad(tensor, axis):
            missing = length * self.beam_size - tensor.shape[axis]
            return tf.pad(tensor, [[0, missing if i == axis else 0] for i in range(tensor.ndim)])

        cache, visible, memory = state
        visible = pad(visible, 2) if self.beam_size > 1 else ()
        return [tuple(pad(part, 2) for part in layer) for layer in cache], visible, memory


class ModelStep:
    """Returns the logits of the next token: a `decoding.Step` for a model and its sources.

    It is a `DecoderStep` with the model's embeddings and memory. Everything that depends only on
    the weights and the sources is computed before the first step.

    Args:
        model: A `Transformer`.
        source: int32 [B, S], the ids of the sentences, padded.
        beam_size: N.
        max_length: The maximum number of tokens of a translation, an int or a scalar tensor.
        logit_bias: float32 [V], added to the logits, or None.
        stage_lengths: The `lengths` of `Stages`, for a graph of fixed shapes. By default,
            the cache grows by concatenation.
        single_sentence: Whether the batch is a single sentence without padding. Chooses operations
            that are fast for a few rows, and a loop without dropping sentences. Needs a static B
            of 1 and no `stage_lengths`.
        prepared: The result of `prepare_weights`, if it is known already.
        device: "cpu", or "gpu" for operations that suit a GPU.
        first_tokens: int32 [B], the token that each translation begins with, at no cost, or None.

    Raises:
        ValueError: If `single_sentence` is given with `stage_lengths` or another batch size, or a
            subclass overrides `decode`, `embed_target`, `project_to_logits` or the `call` of a part
            of the decoder.

    >>> model = Transformer.from_size("tiny", vocab_size=50, num_layers=1)
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
        *,
        logit_bias: tf.Tensor | None = None,
        stage_lengths: tuple[int, ...] | None = None,
        single_sentence: bool = False,
        prepared: PreparedWeights | None = None,
        device: str = "cpu",
        first_tokens: tf.Tensor | None = None,
    ):
        if single_sentence and (stage_lengths is not None or source.shape[0] != 1):
            raise ValueError(
                "single_sentence needs a source of shape [1, S] and no stage_lengths, received "
                f"shape {source.shape} and stage_lengths={stage_lengths}. Leave it out."
            )
        check_decoder(model.decoder, model)
        self.model = model
        self.device = device
        self.logit_bias = logit_bias
        if model.output_bias is not None:
            bias = tf.cast(model.output_bias, tf.float32)
            self.logit_bias = bias if logit_bias is None else bias + logit_bias
        self.single_sentence = single_sentence
        if source.shape[0] == 1 and has_plain_encoder(model):
            mask = None if single_sentence else padding_mask(source)
            memory = encode_sentence(model, source, mask)
        else:
            memory, mask = model.encode(source, training=False)
        self.positions = tf.cast(model.target_position.encoding(max_length), tf.float32)
        self.prepared = prepared or prepare_weights(model, single_sentence)
        self._embeddings = model.output_embedding.kernel("embeddings") if single_sentence else None
        layers = zip(model.decoder.layers, self.prepared.projections, strict=True)
        step = DecoderStep(
            model.decoder,
            self._embed,
            self._project,
            source.shape[0] or tf.shape(source)[0],
            beam_size=beam_size,
            memory=memory,
            memory_mask=mask,
            weights=[layer_weights(layer, projections) for layer, projections in layers],
            stage_lengths=stage_lengths,
            drops_sentences=not single_sentence,
            device=device,
        )
        self._step = step
        self._first_tokens = first_tokens
        self._rows = beam_size * source.shape[0] if source.shape[0] else -1
        self._beam_size = beam_size
        self.stages, self.select, self.initial_state = step.stages, step.select, step.initial_state

    def __call__(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Return the logits float32 [B * N, V] of the next token, and the state; see `Step`."""
        logits, state = self._step(ids, parents, position, state)
        if self._first_tokens is not None:
            # A condition, because the search may drop rows after the first position.
            size = logits.shape[-1]
            logits = tf.cond(position == 0, lambda: self._forced(size), lambda: logits)
        return logits, state

    def _forced(self, size):
        """Return logits [B * N, V] that leave nothing but the first tokens."""
        ids = tf.tile(self._first_tokens[:, tf.newaxis], [1, self._beam_size])
        ids = tf.reshape(ids, [self._rows])
        return tf.one_hot(ids, size, on_value=0.0, off_value=BAN)

    def _embed(self, ids, position):
        # `ops.take` has three more operations, for negative ids.
        x = self.model.target_embedding.embed(lambda rows: tf.gather(rows, ids))
        # The sum is rounded once, as in training.
        x = tf.cast(tf.cast(x, tf.float32) + tf.gather(self.positions, position), x.dtype)
        return x if self.model.target_norm is None else self.model.target_norm(x)

    def _project(self, x):
        if self.device == "gpu":  # Logits are not rounded to the type of the weights.
            kernel = tf.cast(self.prepared.output_kernel, x.dtype)
            logits = tf.raw_ops.BatchMatMulV3(x=x, y=kernel, Tout=tf.float32)
        elif self.single_sentence:
            logits = few_rows_logits(x, tf.cast(self._embeddings, x.dtype))
        else:
            logits = multiply_rows(x, self.prepared.output_kernel)
        logits = tf.cast(logits, tf.float32)
        return logits if self.logit_bias is None else logits + self.logit_bias
