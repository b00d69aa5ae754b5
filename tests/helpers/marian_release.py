"""A release of a tiny model with random weights, in Marian's own files."""

import numpy as np
import yaml

from tests.helpers.foreign_spm import spm_pieces, train_spm

D, D_FF, HEADS, LAYERS = 8, 12, 2, {"encoder": 2, "decoder": 1}
OPTIONS = {
    "type": "transformer",
    "dim-emb": D,
    "enc-depth": LAYERS["encoder"],
    "dec-depth": LAYERS["decoder"],
    "transformer-heads": HEADS,
    "transformer-dim-ffn": D_FF,
    "transformer-ffn-activation": "relu",
    "transformer-postprocess": "dan",
    "transformer-preprocess": "",
    "tied-embeddings-all": True,
}


def write_release(folder, weights=None, decoder=None, **options):
    """Write a release of a tiny model with random weights, and return its weights."""
    pieces = {"</s>": 0, "<unk>": 1}
    for side, name in enumerate(("source", "target")):
        model = train_spm(side)
        (folder / f"{name}.spm").write_bytes(model)
        for piece in spm_pieces(model):
            pieces.setdefault(piece, len(pieces))
    lines = (f'"{piece}": {i}' for piece, i in pieces.items())
    (folder / "joint.vocab.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    random = np.random.default_rng(1)
    made = {"Wemb": (len(pieces), D), "decoder_ff_logit_out_b": (1, len(pieces))}
    for stack, depth in LAYERS.items():
        for layer in range(1, depth + 1):
            name = f"{stack}_l{layer}"
            for attention in ("self", "context")[: 1 + (stack == "decoder")]:
                made |= {f"{name}_{attention}_W{letter}": (D, D) for letter in "qkvo"}
                made |= {f"{name}_{attention}_b{letter}": (1, D) for letter in "qkvo"}
                made |= {f"{name}_{attention}_Wo_ln_{x}": (1, D) for x in ("scale", "bias")}
            made |= {f"{name}_ffn_W1": (D, D_FF), f"{name}_ffn_b1": (1, D_FF)}
            made |= {f"{name}_ffn_W2": (D_FF, D), f"{name}_ffn_b2": (1, D)}
            made |= {f"{name}_ffn_ffn_ln_{x}": (1, D) for x in ("scale", "bias")}
    arrays = {n: random.normal(size=shape).astype("float32") for n, shape in made.items()}
    arrays |= weights or {}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    text = yaml.safe_dump(OPTIONS | {"dim-vocabs": [len(pieces)] * 2} | options).encode() + b"\0"
    arrays["special:model.yml"] = np.frombuffer(text, "int8")
    np.savez(folder / "model.npz", **arrays)
    names = {"models": ["model.npz"], "vocabs": ["joint.vocab.yml"] * 2}
    search = {"beam-size": 3, "normalize": 1.0, **names, **(decoder or {})}
    (folder / "decoder.yml").write_text(yaml.safe_dump(search))
    return arrays
