"""Models of Hugging Face's Marian with random weights, and tokenizers of a toy language."""

import json
from pathlib import Path

import pytest

from tests.helpers.foreign_spm import spm_pieces, train_spm
from tests.helpers.tiny import WORDS, toy_pairs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def write_tokenizer(folder: Path, *, separate=False, tags=(), leave_out=5):
    """Write source.spm, target.spm and vocab.json as OPUS-MT has them, and return their sizes.

    The vocabulary has its own order, and lacks some of the pieces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    models = [train_spm(0), train_spm(1)]
    for name, model in zip(("source", "target"), models, strict=True):
        (folder / f"{name}.spm").write_bytes(model)
    sides = [spm_pieces(model)[leave_out:] for model in models]

    def number(pieces):
        pieces = sorted(set(pieces), key=lambda piece: (len(piece), piece))
        names = ["</s>", "<unk>", *tags, *pieces, "<pad>"]
        return {name: i for i, name in enumerate(names)}

    vocabularies = [number(s) for s in sides] if separate else [number([*sides[0], *sides[1]])]
    names = ("vocab.json", "target_vocab.json")
    for name, vocabulary in zip(names, vocabularies, strict=False):
        (folder / name).write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    options = {
        "model_max_length": 512,
        "separate_vocabs": separate,
        "tokenizer_class": "MarianTokenizer",
    }
    options |= {"source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return [len(vocabulary) for vocabulary in vocabularies]


def write_model(
    folder: Path, *, seed=0, separate=False, tags=(), max_length=14, search=None, **sizes
):
    """Write a MarianMTModel with random weights, and return it."""
    source, *target = write_tokenizer(folder, separate=separate, tags=tags)
    options = {
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 512,
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": not separate,
        "pad_token_id": source - 1,
        "decoder_start_token_id": source - 1,
        "init_std": 0.3,
        **sizes,
    }
    config = transformers.MarianConfig(vocab_size=source, **options)
    if target:
        config.decoder_vocab_size = target[0]
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                weight.add_(0.2 * torch.randn(weight.shape))
        model.final_logits_bias.add_(torch.randn(model.final_logits_bias.shape))
    pad = model.config.pad_token_id
    model.generation_config = transformers.GenerationConfig(
        max_length=max_length,
        num_beams=4,
        bad_words_ids=[[pad]],
        forced_eos_token_id=0,
        eos_token_id=0,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        **(search or {}),
    )
    model.save_pretrained(folder)
    return model


def sentences(count):
    """Return sentences, some of them with words that the vocabulary lacks."""
    unusual = ["", " ", "zwölf 漢字", "one" * 9, "a . b", " two  red"]
    return [source for source, _ in toy_pairs(count)] + unusual + [" ".join(WORDS)]
