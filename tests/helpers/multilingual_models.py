"""Models of Hugging Face's M2M100, NLLB and mBART-50 with random weights, and their tokenizers."""

import io
import json
import random
from pathlib import Path

import pytest
import sentencepiece

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

TEXTS = """
All human beings are born free and equal in dignity and rights.
Alle Menschen sind frei und gleich an Würde und Rechten geboren.
Tous les êtres humains naissent libres et égaux en dignité et en droits.
Todos los seres humanos nacen libres e iguales en dignidad y derechos.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm.
Все люди рождаются свободными и равными в своём достоинстве и правах.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ։
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებით.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.
يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता है।
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।
மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.
మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును అగుదురు.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。
人人生而自由，在尊严和权利上一律平等。
የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።
""".strip().split("\n")
CODES = {
    "m2m100": ("en", "de", "zh"),
    "nllb": ("eng_Latn", "deu_Latn", "zho_Hans"),
    "mbart50": ("en_XX", "de_DE", "zh_CN"),
}
NLLB = ["deu_Latn", "eng_Latn", "fra_Latn", "por_Latn", "yue_Hant", "zho_Hans", "zho_Hant"]
TOKENIZERS = {"m2m100": "M2M100Tokenizer", "nllb": "NllbTokenizer", "mbart50": "MBart50Tokenizer"}


def sentences(count, seed=0):
    """Return texts of 22 scripts and languages, whole, cut, mixed and with unusual characters."""
    made, rng = list(TEXTS), random.Random(seed)
    made += ["", "one\u00a0two", "ﬁre ½ ①", "e\u0301te\u0301", "red 😀 🇩🇪", "a  b", "▁a", "x" * 60]
    while len(made) < count:
        words = " ".join(rng.sample(TEXTS, 2)).split()
        start = rng.randrange(len(words))
        chosen = words[start : start + rng.randint(1, 12)]
        if rng.random() < 0.3:
            chosen.insert(0, "".join(rng.sample(rng.choice(TEXTS), 5)).strip())
        made.append(" ".join(" ".join(chosen).split()))
    return made[:count]


def train_spm(kind="bpe"):
    """Return the bytes of a SentencePiece model as fairseq's users train it."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(3 * TEXTS),
        model_writer=written,
        vocab_size=800,
        hard_vocab_limit=False,
        model_type=kind,
        character_coverage=0.999,
        minloglevel=2,
    )
    return written.getvalue()


def write_tokenizer(folder: Path, family, *, files="saved", legacy=False):
    """Write the files of a tokenizer and return it.

    `files` is what the folder has: "saved", what transformers writes, or "spm", as older releases.
    """
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / "raw"
    raw.mkdir()
    (raw / "sentencepiece.bpe.model").write_bytes(
        train_spm("unigram" if family == "mbart50" else "bpe")
    )
    if family == "m2m100":
        spm = sentencepiece.SentencePieceProcessor(str(raw / "sentencepiece.bpe.model"))
        pieces = [spm.id_to_piece(i) for i in range(3, len(spm))]
        # Some are missing, and the order is another.
        names = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pieces[5:])]
        (raw / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    options = {"legacy_behaviour": True} if legacy else {}
    if family == "nllb":
        options["extra_special_tokens"] = NLLB
    (raw / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": TOKENIZERS[family], **options})
    )
    tokenizer = getattr(transformers, TOKENIZERS[family]).from_pretrained(raw, **options)
    if files == "saved":
        tokenizer.save_pretrained(folder)
        for file in raw.iterdir():
            file.unlink()
    else:
        for file in raw.iterdir():
            file.rename(folder / file.name)
    raw.rmdir()
    return tokenizer


def write_model(folder: Path, family, *, seed=0, search=None, files="saved", legacy=False, **sizes):
    """Write a model with random weights and its tokenizer, and return both."""
    tokenizer = write_tokenizer(folder, family, files=files, legacy=legacy)
    extra = {"m2m100": 108, "nllb": 2, "mbart50": 0}[family]
    options = {
        "vocab_size": len(tokenizer) + extra,
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 128,
        "scale_embedding": True,
        "init_std": 0.3,
        "decoder_start_token_id": 2,
        **sizes,
    }
    shards = options.pop("max_shard_size", None)
    kind = "MBart" if family == "mbart50" else "M2M100"
    config = getattr(transformers, f"{kind}Config")(**options)
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                weight.add_(0.2 * torch.randn(weight.shape))
            if "embed_positions" in name:
                weight.normal_()
        if family == "mbart50":
            model.final_logits_bias.normal_()
    model.generation_config = transformers.GenerationConfig(
        **{
            "max_length": 14,
            "num_beams": 4,
            "eos_token_id": 2,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
            "forced_eos_token_id": 2,
            **(search or {}),
        }
    )
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    return model, tokenizer
