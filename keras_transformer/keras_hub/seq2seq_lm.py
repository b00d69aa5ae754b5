"""Translation as a KerasHub task, with KerasHub's samplers."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_transformer.config import BOS_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.keras_hub.backbone import TransformerBackbone, attention_mask, encode
from keras_transformer.keras_hub.preprocessor import TransformerSeq2SeqLMPreprocessor
from keras_transformer.keras_hub.tokenizer import TransformerTokenizer
from keras_transformer.layers.masks import mask_bias
from keras_transformer.translation import Translator
from keras_transformer.translation.cached_step import (
    decoder_step,
    empty_cache,
    layer_weights,
    project_memory,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSeq2SeqLM(keras_hub.models.Seq2SeqLM):
    """A `Transformer` as a `keras_hub.models.Seq2SeqLM`, which generates with KerasHub's samplers.

    `fit` takes dictionaries of `encoder_text` and `decoder_text`. `generate` takes strings, and
    works on every Keras backend. Like our searches, it never generates pad, unk and bos.

    Args:
        backbone: A `TransformerBackbone`.
        preprocessor: A `TransformerSeq2SeqLMPreprocessor`. Without, inputs are those of the
            backbone.
        **kwargs: Other arguments of `keras_hub.models.Seq2SeqLM`.

    Call arguments:
        inputs: The inputs of the backbone.

    Returns:
        float32 [B, T, V], the logits of each next token.

    >>> from keras_transformer.text import train_word_piece
    >>> tokenizer = TransformerTokenizer(train_word_piece(["a dog"], 266), kind="wordpiece")
    >>> task = TransformerSeq2SeqLM(
    ...     TransformerBackbone(266, num_layers=1, d_model=8, d_ff=16, num_heads=2),
    ...     TransformerSeq2SeqLMPreprocessor(tokenizer),
    ... )
    >>> task.compile(sampler="greedy", jit_compile=False)
    >>> translations = task.generate(["a dog", "a"], max_length=5)
    >>> len(translations)
    2
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: TransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        **kwargs: Any,
    ):
        self.backbone = backbone
        self.preprocessor = preprocessor
        inputs = backbone.input
        hidden = backbone(inputs)["decoder_sequence_output"]
        outputs = backbone.transformer.project_to_logits(hidden)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    @classmethod
    def from_translator(
        cls,
        translator: Translator,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
    ) -> "TransformerSeq2SeqLM":
        """Return a task with a copy of a translator's weights.

        The task is compiled with the sampler `"greedy"`. It doesn't take over the translator's
        search.

        Args:
            translator: The translator.
            encoder_sequence_length: S, the length that all sources are padded or cut to, including
                eos; by default the translator's `max_source_length`. `generate` takes less time
                with a smaller one.
            decoder_sequence_length: T, the default `max_length` of `generate`, including bos; by
                default the length of the longest translation, or with learned positions their
                number if that is smaller.

        Raises:
            ValueError: If the model is one of many languages.
        """
        if translator.languages:
            raise ValueError(
                "A KerasHub task has no languages, but the translator's model has "
                f"{len(translator.languages)}, whose tokens precede the texts. Use the translator."
            )
        model, decoding = translator.model, translator.decoding
        backbone = TransformerBackbone.from_transformer(model)
        source = None
        if translator.tokenizer is not translator.target_tokenizer:
            source = TransformerTokenizer.wrap(
                translator.tokenizer, config_file="source_tokenizer.json"
            )
        longest = decoding.longest(decoding.max_source_length) + 1
        if model.config.position == "learned":
            longest = min(longest, model.config.max_length)
        preprocessor = TransformerSeq2SeqLMPreprocessor(
            TransformerTokenizer.wrap(translator.target_tokenizer),
            source,
            encoder_sequence_length or decoding.max_source_length,
            decoder_sequence_length or longest,
            translator.origin,
        )
        task = cls(backbone, preprocessor)
        task.compile(sampler="greedy")
        return task

    def to_translator(
        self, decoding: DecodingConfig | None = None, compiled: bool = False
    ) -> Translator:
        """Return a translator with a copy of the weights. Needs the TensorFlow backend.

        Args:
            decoding: The search; by default the paper's beam of 4.
            compiled: Whether XLA compiles the search.

        Raises:
            ValueError: If there is no preprocessor.
        """
        preprocessor = self.preprocessor
        if preprocessor is None:
            raise ValueError(
                "A translator needs tokenizers, but the task has no preprocessor. Set "
                "task.preprocessor to a TransformerSeq2SeqLMPreprocessor."
            )
        source = preprocessor.source_tokenizer or preprocessor.tokenizer
        model = self.backbone.transformer
        translator = Translator(
            model.with_dtype(model.dtype_policy),
            source.unwrap(),
            preprocessor.tokenizer.unwrap(),
            decoding,
            compiled,
        )
        translator.origin = preprocessor.origin
        return translator

    def generate_step(
        self, inputs: dict[str, Any], stop_token_ids: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """Generate translations of a batch; `generate` compiles this function.

        Args:
            inputs: The inputs of the backbone. The mask of the decoder is True for the tokens that
                the translations start with, at least bos.
            stop_token_ids: The ids that end a translation. By default, all have T tokens.

        Returns:
            A dictionary of `decoder_token_ids`, int32 [B, T], and `decoder_padding_mask`,
            bool [B, T], True up to the first new stop token.
            A source without tokens before eos generates nothing.
        """
        prompt = ops.convert_to_tensor(inputs["decoder_token_ids"])
        is_prompt = ops.cast(inputs["decoder_padding_mask"], "bool")
        start = ops.min(ops.sum(ops.cast(is_prompt, "int32"), axis=1))
        step = _Step(self.backbone, inputs, prompt.shape[1])

        def fill(index, cache):
            return index + 1, step(prompt, cache, index)[2]

        # The sampler's first step is that of the last token which all prompts have.
        cache = ops.while_loop(lambda index, cache: index < start, fill, (1, step.initial_cache()))[
            1
        ]
        ids = self.sampler(
            next=step,
            prompt=prompt,
            cache=cache,
            index=start,
            mask=is_prompt,
            stop_token_ids=stop_token_ids,
            model=self,
        )
        # A source that is only eos has an empty translation, as in `Translator`.
        lengths = ops.sum(ops.cast(inputs["encoder_padding_mask"], "int32"), axis=1, keepdims=True)
        is_generated = ops.logical_and(_is_generated(ids, is_prompt, stop_token_ids), lengths > 1)
        return {
            "decoder_token_ids": ids,
            "decoder_padding_mask": ops.logical_or(is_prompt, is_generated),
        }


class _Step:
    """The `next` of KerasHub's samplers: logits of the next token, with a cache.

    Every tensor of a cache has the sentences as its first axis, because samplers repeat and reorder
    them.
    """

    def __init__(self, backbone, inputs, length):
        self.model = model = backbone.transformer
        self.length = length
        ids = ops.convert_to_tensor(inputs["encoder_token_ids"])
        mask = attention_mask(inputs["encoder_padding_mask"])
        self.batch = ops.shape(ids)[0]
        memory = encode(model, ids, mask)
        self.memory = project_memory(model.decoder, memory), mask_bias(mask)
        self.positions = model.target_position.encoding(length)
        self.weights = [layer_weights(layer) for layer in model.decoder.layers]
        bias = np.zeros(model.config.target_size, "float32")
        bias[[PAD_ID, UNK_ID, BOS_ID]] = -1e9
        self.logit_bias = ops.convert_to_tensor(bias)

    def initial_cache(self):
        places = [[0, 0], [0, 0], [0, self.length], [0, 0]]
        cache = empty_cache(self.model.decoder, self.batch)
        return keras.tree.map_structure(lambda part: ops.pad(part, places), cache), self.memory

    def __call__(self, prompt, cache, index):
        """Return logits [B, V] and hidden states [B, D] after token `index` - 1, and the cache."""
        model, position = self.model, index - 1
        keys_and_values, (memory_heads, memory_bias) = cache
        x = model.target_embedding(ops.take(prompt, position, axis=1))
        encoding = ops.take(self.positions, position, axis=0)
        x = ops.cast(ops.cast(x, "float32") + encoding, x.dtype)
        is_written = ops.arange(self.length, dtype="int32") <= position
        x, keys_and_values = decoder_step(
            model.decoder,
            self.weights,
            x if model.target_norm is None else model.target_norm(x),
            memory_heads,
            memory_bias,
            keys_and_values,
            write=lambda cached, heads: ops.slice_update(cached, (0, 0, position, 0), heads),
            self_bias=mask_bias(is_written)[None, None],
        )
        logits = model.project_to_logits(x) + self.logit_bias
        return logits, x, (keys_and_values, (memory_heads, memory_bias))


def _is_generated(ids, is_prompt, stop_token_ids):
    """Return which ids [B, T] come no later than the first new stop token of their row."""
    if stop_token_ids is None:
        return ops.ones_like(ids, dtype="bool")
    is_stop = ops.zeros_like(ids, dtype="bool")
    for stop in stop_token_ids:
        is_stop = ops.logical_or(is_stop, ops.equal(ids, stop))
    is_stop = ops.cast(ops.logical_and(is_stop, ops.logical_not(is_prompt)), "int32")
    return ops.cumsum(is_stop, axis=1) - is_stop == 0
