"""The vocabularies of Hugging Face's models: two of Marian's, or one of many languages."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.pretrained.foreign_model import ForeignSide
from keras_transformer.pretrained.vocabulary_file import read_spm, read_vocabulary
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.foreign_vocabulary import split_vocabulary
from keras_transformer.utils.files import read_json

_SPM, _JSON = "sentencepiece.bpe.model", "tokenizer.json"
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
"""The first pieces of fairseq's vocabularies."""
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""A language of NLLB, such as eng_Latn, or mBART, such as en_XX."""
_M2M100 = {
    "m2m100": """
        af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu
        ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr
        ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr
        uk ur uz vi wo xh yi yo zh zu
    """,
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages of M2M100, which its files do not list, in the order of their ids."""
_MBART_50 = """
    ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
    my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID
    ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA
    ur_PK xh_ZA gl_ES sl_SI
"""


def read_sides(
    folder: Path, options: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> tuple[ForeignSide, ForeignSide]:
    """Return the vocabularies of the source and the target of Marian.

    Args:
        folder: The folder, with source.spm, target.spm and vocab.json.
        options: The options of config.json, with defaults.
        tokenizer: The options of tokenizer_config.json.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or files belong to different models.
    """
    own = "target_vocab.json" if tokenizer.get("separate_vocabs") else "vocab.json"
    size = options["vocab_size"]
    target_size = options.get("decoder_vocab_size") or size
    return (
        _read_side(folder / "vocab.json", folder / "source.spm", size, tokenizer, options),
        _read_side(folder / own, folder / "target.spm", target_size, tokenizer, options),
    )


def _read_side(path, spm, size, tokenizer, options):
    model, _ = read_spm(spm)
    pieces = read_vocabulary(path)
    if len(pieces) != size:
        added = path.with_name("added_tokens.json")
        remedy = f": add the tokens of {added.name} to {path.name}" if added.exists() else None
        raise ValueError(
            f"{path} has {len(pieces):,} pieces, and config.json {size:,}. They must be the same"
            f"{remedy or '; restore both'}."
        )
    ids = {}
    for key, default in (("unk", "<unk>"), ("eos", "</s>")):
        token = tokenizer.get(f"{key}_token") or default
        token = token.get("content") if isinstance(token, dict) else token
        if token not in pieces:
            raise ValueError(f"{path} must have the {key} token {token!r}, but lacks it.")
        ids[key] = pieces.index(token)
    for name, key in (("pad", "pad_token_id"), ("start", "decoder_start_token_id")):
        ids[name] = options[key]
        if not 0 <= ids[name] < len(pieces):
            raise ValueError(
                f"{key} in config.json must be an id of {path}, received {ids[name]}. They belong "
                "to different models; restore both."
            )
    return ForeignSide(model, pieces, **ids)


def write_sides(
    source: SentencePieceTokenizer, target: SentencePieceTokenizer, longest: int
) -> dict[str, Any]:
    """Return the files of a tokenizer of Marian: bytes, or the content of a JSON file.

    Args:
        source: The vocabulary of the source.
        target: The vocabulary of the target, with the same special tokens.
        longest: The most tokens of a source.
    """
    ours, theirs = (t.id_to_piece(range(t.vocab_size)) for t in (source, target))
    vocabularies = {"vocab.json": ours} | ({"target_vocab.json": theirs} if ours != theirs else {})
    special = {"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID}
    return {
        "source.spm": split_vocabulary(source.model),
        "target.spm": split_vocabulary(target.model),
        **{
            name: {piece: i for i, piece in enumerate(pieces)}
            for name, pieces in vocabularies.items()
        },
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": longest,
            "separate_vocabs": ours != theirs,
            **{f"{name}_token": ours[i] for name, i in special.items()},
        },
    }


def read_languages(
    folder: Path, options: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> ForeignSide:
    """Return the vocabulary of a model of many languages, which both sides share.

    Args:
        folder: The folder, with sentencepiece.bpe.model, tokenizer.json or both; M2M100 also has
            vocab.json.
        options: The options of config.json, with defaults.
        tokenizer: The options of tokenizer_config.json.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or files belong to different models.
    """
    if str(tokenizer.get("tokenizer_class")).removesuffix("Fast") == "MBartTokenizer":
        raise ValueError(
            f"{folder} is a model of mBART-25, whose decoder starts from a language. Of this "
            "family, only mBART-50 can be imported, such as "
            "facebook/mbart-large-50-many-to-many-mmt."
        )
    added: Sequence[str] = ()
    if (folder / "vocab.json").exists():
        spm = read_spm(folder / _SPM)[0]
        pieces = read_vocabulary(folder / "vocab.json")
        names = _M2M100.get(tokenizer.get("language_codes") or "m2m100", "").split()
        languages = {code: f"__{code}__" for code in names}
        pieces += [piece for piece in languages.values() if piece not in pieces]
    else:
        spm, pieces, added = _read_fairseq(folder, tokenizer)
        languages = {piece: piece for piece in pieces if _CODE.fullmatch(piece)}
    size, path = options["vocab_size"], folder / "config.json"
    missing = [piece for piece in _SPECIAL if piece not in pieces]
    if missing or not languages:
        what = f"lacks {', '.join(missing)}" if missing else "has no languages"
        raise ValueError(f"The vocabulary in {folder} {what}. Restore the tokenizer's files.")
    if len(pieces) > size:
        raise ValueError(
            f"{path} has a vocab_size of {size:,}, and the tokenizer {len(pieces):,} tokens. They "
            "belong to different models; restore both."
        )
    unused = [f"<unused {i}>" for i in range(len(pieces), size)]
    pieces += unused
    for key in ("pad_token_id", "decoder_start_token_id"):
        if not 0 <= options[key] < size:
            raise ValueError(
                f"{key} in {path} must be an id below {size}, received {options[key]}. Restore it."
            )
    return ForeignSide(
        spm,
        pieces,
        pad=options["pad_token_id"],
        start=options["decoder_start_token_id"],
        unk=pieces.index("<unk>"),
        eos=pieces.index("</s>"),
        languages=languages,
        silent=[*_SPECIAL, *languages.values(), *added, *unused],
        language_comes_last=bool(tokenizer.get("legacy_behaviour")),
    )


def _read_fairseq(
    folder: Path, tokenizer: Mapping[str, Any]
) -> tuple[bytes, list[str], Sequence[str]]:
    """Return SentencePiece model, pieces by id, and those that are no part of text."""
    has_json, has_spm = (folder / _JSON).exists(), (folder / _SPM).exists()
    if not (has_json or has_spm):
        raise FileNotFoundError(f"{folder} must have {_SPM} or {_JSON}, but has neither.")
    if has_json:
        path = folder / _JSON
        content = read_json(path)
        try:
            pieces, added = _json_pieces(content)
            spm = read_spm(folder / _SPM)[0] if has_spm else _rebuilt_spm(content)
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
            raise ValueError(f"{path} is damaged, or of another kind: {error}.") from error
        return spm, pieces, added
    spm, spm_pieces = read_spm(folder / _SPM)
    listed = dict(tokenizer)
    if (path := folder / "special_tokens_map.json").exists():
        listed = read_json(path) | listed
    tokens = listed.get("extra_special_tokens") or listed.get("additional_special_tokens") or []
    codes = [str(code) for code in tokens if _CODE.fullmatch(str(code))]
    if not codes and str(tokenizer.get("tokenizer_class")).startswith("MBart50"):
        codes = _MBART_50.split()
    # fairseq has padding as a token more.
    return spm, [*_SPECIAL, *spm_pieces[3:], *codes, "<mask>"], ["<mask>"]


def _json_pieces(content: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the pieces of tokenizer.json by id, and those that are added to the model's."""
    vocabulary = content["model"]["vocab"]
    if isinstance(vocabulary, dict):
        ids = dict(vocabulary)
    else:
        ids = {piece: i for i, (piece, _) in enumerate(vocabulary)}
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
    ids |= added
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError("the ids of its tokens must be 0, 1, 2 and so on")
    return sorted(ids, key=lambda piece: ids[piece]), list(added)


def _rebuilt_spm(content: Mapping[str, Any]) -> bytes:
    """Return the SentencePiece model that a tokenizer.json was made from, but for its ids."""
    from sentencepiece import sentencepiece_model_pb2 as schema

    model, proto = content["model"], schema.ModelProto()
    kind = model.get("type") or ("BPE" if "merges" in model else "Unigram")
    if kind == "BPE":
        scores = dict.fromkeys(model["vocab"], 0.0)
        merges = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
        for rank, (left, right) in enumerate(merges, start=1):
            scores[left + right] = scores[left + right] or -float(rank)
        proto.trainer_spec.model_type = proto.trainer_spec.BPE
    elif kind == "Unigram":
        scores = dict(model["vocab"])
        proto.trainer_spec.model_type = proto.trainer_spec.UNIGRAM
    else:
        raise ValueError(f"its model must be BPE or Unigram, received {kind!r}")
    added = {token["content"] for token in content.get("added_tokens") or []}
    proto.pieces.add(piece="<unk>", type=schema.ModelProto.SentencePiece.UNKNOWN)
    for piece, score in scores.items():
        if piece not in added and piece not in _SPECIAL and not _CODE.fullmatch(piece):
            proto.pieces.add(piece=piece, score=score)
    normalizer = content.get("normalizer") or {}
    for part in normalizer.get("normalizers", [normalizer]):
        if part.get("type") == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"], validate=True)
            proto.normalizer_spec.precompiled_charsmap = charsmap
    return proto.SerializeToString()


def fairseq_order(pieces: Sequence[str]) -> list[int]:
    """Return our id of each id of fairseq's, which has our start token only if that is <s>.

    >>> fairseq_order(["<pad>", "<unk>", "<<s>>", "</s>", "<s>", "a", "en_XX"])
    [4, 0, 3, 1, 5, 6]
    """
    first = [pieces.index(name) for name in _SPECIAL]
    return [*first, *(i for i in range(EOS_ID + 1, len(pieces)) if i not in first)]


def write_languages(
    tokenizer: SentencePieceTokenizer, languages: Sequence[str | None]
) -> dict[str, Any]:
    """Return the files of a tokenizer of Hugging Face: bytes, or the content of a JSON file.

    Args:
        tokenizer: A vocabulary that `read_languages` read.
        languages: The default source and target.
    """
    ours = tokenizer.id_to_piece(range(tokenizer.vocab_size))
    pieces = [ours[i] for i in fairseq_order(ours)]
    unused = [piece for piece in pieces if re.fullmatch(r"<unused \d+>", piece)]
    codes = list(tokenizer.languages)
    silent = {*tokenizer.id_to_piece(list(tokenizer.languages.values())), *unused, "<mask>"}
    text = [piece for piece in pieces if piece not in silent]
    source, target = languages
    options: dict[str, Any] = {
        **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        **{"src_lang": source or codes[0], "tgt_lang": target},
    }
    if not _CODE.fullmatch(codes[0]):
        kinds = [name for name, listed in _M2M100.items() if set(listed.split()) == set(codes)]
        options |= {
            "tokenizer_class": "M2M100Tokenizer",
            "language_codes": (kinds or ["m2m100"])[0],
        }
        vocabulary = {piece: i for i, piece in enumerate(text)}
        files = {_SPM: split_vocabulary(tokenizer.model), "vocab.json": vocabulary}
        return {**files, "tokenizer_config.json": options}
    is_mbart = set(codes) == set(_MBART_50.split())
    options["tokenizer_class"] = "MBart50Tokenizer" if is_mbart else "NllbTokenizer"
    options["mask_token"] = "<mask>"
    if not is_mbart:
        options |= {"extra_special_tokens": codes}
        options["legacy_behaviour"] = tokenizer.language_comes_last
    used = pieces[: len(pieces) - len(unused)]
    return {
        "tokenizer.json": _written_json(tokenizer.model, text, used),
        "tokenizer_config.json": options,
    }


def _written_json(model: bytes, text: Sequence[str], used: Sequence[str]) -> dict[str, Any]:
    """Return a tokenizer.json of the pieces of text, and of these with those of languages."""
    from sentencepiece import sentencepiece_model_pb2 as schema

    proto: Any = schema.ModelProto.FromString(model)
    scores = {piece.piece: piece.score for piece in proto.pieces}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        ids = {piece: i for i, piece in enumerate(text)}
        kind = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": False}
        kind |= {"vocab": ids, "merges": _merges(ids, scores)}
    else:
        is_text = {*text[len(_SPECIAL) :]}
        listed = [[piece, scores[piece] if piece in is_text else 0.0] for piece in used]
        kind = {"type": "Unigram", "unk_id": _SPECIAL.index("<unk>"), "vocab": listed}
        kind["byte_fallback"] = False
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    parts: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    ]
    if charsmap:
        parts.insert(0, {"type": "Precompiled", "precompiled_charsmap": charsmap})
    added = {*_SPECIAL, *used} - {*text[len(_SPECIAL) :]}
    flags = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": piece, "lstrip": piece == "<mask>", **flags}
            for i, piece in enumerate(used)
            if piece in added
        ],
        "normalizer": {"type": "Sequence", "normalizers": parts},
        "pre_tokenizer": space,
        "decoder": space,
        "model": kind,
    }


def _merges(ids: Mapping[str, int], scores: Mapping[str, float]) -> list[list[str]]:
    """Return the merges of BPE, in the order of Hugging Face's conversion."""
    found = []
    for piece in ids:
        cuts = range(1, len(piece) if piece not in _SPECIAL else 1)
        splits = [(piece[:cut], piece[cut:]) for cut in cuts]
        known = [(left, right) for left, right in splits if left in ids and right in ids]
        known.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        found += [(scores[piece], *pair) for pair in known]
    found.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    return [[left, right] for _, left, right in found]
