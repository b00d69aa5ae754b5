"""Export to CTranslate2, a C++ inference engine with its own model format."""

import os
from pathlib import Path

import numpy as np

from keras_transformer.config import BOS_ID, EOS_ID, UNK_ID
from keras_transformer.text.files import save_tokenizers
from keras_transformer.translation.foreign import TABLES, array_of, check_is_new, other_position
from keras_transformer.translation.saved import write_readme
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.files import whole_directory

_LONGEST_INPUT = 1024  # CTranslate2 truncates longer source sentences by default.
_ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU", "sigmoid_gelu": "GELUSigmoid"}
"""The names in CTranslate2 of the activations of `TransformerConfig`."""


def export_ctranslate2(translator: Translator, path: str | os.PathLike) -> Path:
    """Write a translator's model as a directory for CTranslate2 (https://opennmt.net/CTranslate2).

    CTranslate2 takes and returns subwords, so the directory also has the vocabulary files of the
    tokenizers: vocabulary.model, or source.model and target.model; and a README.md with the license
    and the attribution of an imported model. The weights are float32;
    CTranslate2 converts them when it loads the model, for example with `compute_type="int8"`.

    CTranslate2 decodes with its own options, not the translator's. In particular its length
    penalty divides log-probabilities by length ** length_penalty, without eos, instead of the
    formula of Wu et al. (2016). Positions end where the translator's do, or at 1,024. Give
    `suppress_sequences=[["<pad>"], ["<s>"]]`, so that these are never generated. In a multilingual
    model, a tag such as ">>de<<" is the first subword of the source. In a model of many languages,
    the subword of the source's language comes first, and that of the target is its `target_prefix`;
    for an NLLB with `legacy_behaviour`, the source ends with "</s>" and its language instead.

    Args:
        translator: The translator to export.
        path: A directory that does not exist yet. It appears only when it is complete.

    Returns:
        The directory.

    Raises:
        ImportError: If CTranslate2 is not installed.
        FileExistsError: If `path` exists.
        ValueError: If the translator makes trees, or its position encoding is not a table.

    >>> import tempfile, ctranslate2, sentencepiece
    >>> from keras_transformer import Transformer
    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a b c d e f g"], 270))
    >>> model = Transformer.from_size("tiny", vocab_size=tokenizer.vocab_size, num_layers=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_ctranslate2(Translator(model, tokenizer), f"{folder}/model")
    ...     engine = ctranslate2.Translator(str(path))
    ...     subwords = sentencepiece.SentencePieceProcessor(f"{path}/vocabulary.model")
    >>> source = [subwords.encode("a b", out_type=str)]
    >>> result = engine.translate_batch(source, beam_size=4, max_decoding_length=5)
    >>> text = subwords.decode(result[0].hypotheses[0])
    """
    path = Path(path)
    if translator.makes_trees:
        raise ValueError(
            "CTranslate2 does not know the rules of trees, received a translator that makes trees. "
            "Export a SavedModel."
        )
    if other := other_position(translator.model):
        raise ValueError(
            f"CTranslate2 can add the positions {', '.join(map(repr, TABLES))}, received "
            f"position={other}. Export a SavedModel."
        )
    check_is_new(path)
    spec = _new_spec(translator.model.config)
    _set_model(spec, translator)
    spec.validate()
    spec.optimize()  # Equal weights, such as tied embeddings, are stored once.
    with whole_directory(path) as temporary:
        spec.save(str(temporary))
        tokenizers = translator.tokenizer, translator.target_tokenizer
        one = tokenizers[0].model == tokenizers[1].model
        save_tokenizers(temporary, tokenizers, shared=one)
        write_readme(temporary, translator.origin)
    return path


def _new_spec(config):
    """Return a `TransformerSpec` of these sizes without weights."""
    try:
        from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec
    except ImportError as error:
        raise ImportError(
            "Export to CTranslate2 needs its package: pip install ctranslate2"
        ) from error

    options = {
        "pre_norm": config.norm == "pre",
        "activation": common_spec.Activation[_ACTIVATIONS[config.activation]],
        "layernorm_embedding": config.embedding_norm,
    }
    encoder = transformer_spec.TransformerEncoderSpec(
        config.num_layers, config.num_heads, **options
    )
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers, config.decoder_heads, **options
    )
    encoder.scale_embeddings = decoder.scale_embeddings = config.scale_embeddings
    return TransformerSpec(encoder, decoder)


def _set_model(spec, translator):
    """Copy vocabularies, settings and weights to a `TransformerSpec`."""
    model, search = translator.model, translator.decoding
    source, target = (
        tokenizer.id_to_piece(range(tokenizer.vocab_size))
        for tokenizer in (translator.tokenizer, translator.target_tokenizer)
    )
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS_ID]
    spec.config.eos_token = target[EOS_ID]
    spec.config.add_source_eos = not translator.tokenizer.language_comes_last
    spec.config.layer_norm_epsilon = model.config.layer_norm_epsilon

    spec.encoder.embeddings[0].weight = array_of(model.source_embedding.kernel("embeddings"))
    spec.decoder.embeddings.weight = array_of(model.target_embedding.kernel("embeddings"))
    spec.decoder.projection.weight = array_of(model.output_embedding.kernel("embeddings"))
    if model.output_bias is not None:
        spec.decoder.projection.bias = array_of(model.output_bias)
    positions = max(_LONGEST_INPUT, search.longest(search.max_source_length))
    for side, stack, position, embedding_norm in (
        (spec.encoder, model.encoder, model.source_position, model.source_norm),
        (spec.decoder, model.decoder, model.target_position, model.target_norm),
    ):
        known = getattr(position, "max_length", positions)  # Of learned ones.
        side.position_encodings.encodings = array_of(position.encoding(min(positions, known)))
        norms = {"layer_norm": stack.final_norm, "layernorm_embedding": embedding_norm}
        for name, norm in norms.items():
            if norm is not None:
                _set_norm(getattr(side, name), norm)
        for layer_spec, layer in zip(side.layer, stack.layers, strict=True):
            _set_layer(layer_spec, layer)


def _set_layer(spec, layer):
    _set_attention(spec.self_attention, layer.self_attention)
    _set_norm(spec.self_attention.layer_norm, layer.self_attention_residual.layer_norm)
    if hasattr(spec, "attention"):
        _set_attention(spec.attention, layer.cross_attention)
        _set_norm(spec.attention.layer_norm, layer.cross_attention_residual.layer_norm)
    for linear, name in ((spec.ffn.linear_0, "inner"), (spec.ffn.linear_1, "outer")):
        linear.weight = array_of(layer.feed_forward.kernel(f"{name}_kernel")).T
        linear.bias = array_of(getattr(layer.feed_forward, f"{name}_bias"))
    _set_norm(spec.ffn.layer_norm, layer.feed_forward_residual.layer_norm)


def _set_attention(spec, attention):
    """Copy the projections. CTranslate2 uses one head size for keys and values."""
    size = max(attention.key_dim, attention.value_dim)

    def fill(rows):
        """Pad [H * K, ...] to [H * size, ...]. Zeros in keys or values change no product."""
        heads = rows.reshape(attention.num_heads, -1, *rows.shape[1:])
        missing = size - heads.shape[1]
        heads = np.pad(heads, [(0, 0), (0, missing), *[(0, 0)] * (rows.ndim - 1)])
        return heads.reshape(-1, *rows.shape[1:])

    def parts(suffix, weight):
        """Return the rows of the linear layers before the last one."""
        names = "query", "key", "value"
        query, *memory = (fill(weight(f"{name}_{suffix}")) for name in names)
        is_self_attention = len(spec.linear) == 2
        products = [[query, *memory]] if is_self_attention else [[query], memory]
        return [np.concatenate(product) for product in products]

    kernels = parts("kernel", lambda name: array_of(attention.kernel(name)).T)
    kernels.append(fill(array_of(attention.kernel("output_kernel"))).T)
    for linear, kernel in zip(spec.linear, kernels, strict=True):
        linear.weight = kernel
    if attention.use_bias:
        biases = parts("bias", lambda name: array_of(getattr(attention, name)))
        biases.append(array_of(attention.output_bias))
        for linear, bias in zip(spec.linear, biases, strict=True):
            linear.bias = bias
    spec.queries_scale = attention.key_dim**-0.5


def _set_norm(spec, norm):
    spec.gamma, spec.beta = array_of(norm.gamma), array_of(norm.beta)
