"""Make the golden model: train on the toy language, export, and record its translations.

    python -m tests.export.make_golden

Run it only when exported models are meant to change; test_golden.py notices when they do.
"""

import json
import shutil
import tempfile
from pathlib import Path

from keras_transformer.config import DecodingConfig
from keras_transformer.export import export_saved_model
from keras_transformer.training import train
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import NO_UTF8, ODD, toy_experiment, toy_pairs, write_toy_text

GOLDEN = Path(__file__).with_name("golden")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = write_toy_text(folder, train=2000, validation=50)
        recipe = {"batch_tokens": 1000, "warmup_steps": 200, "learning_rate_scale": 0.5}
        experiment = toy_experiment(data, epochs=30, **recipe)
        trained = train(experiment, f"{folder}/training")
    one, two = (
        Translator(
            trained.model,
            trained.tokenizer,
            decoding=DecodingConfig(beam_size=3, num_hypotheses=n, max_source_length=64),
        )
        for n in (1, 2)
    )
    shutil.rmtree(GOLDEN, ignore_errors=True)
    facts = {"data": "the toy language of tests/tiny.py"}
    version = export_saved_model(one, GOLDEN, facts)
    shutil.rmtree(GOLDEN / "serving")
    texts = [source.encode() for source, _ in toy_pairs(2050)[2000:]]
    texts += [text.encode() for text in ODD] + NO_UTF8
    found = two.n_best(texts)
    scores = found["scores"].numpy()
    expected = [
        {"text": text.hex(), "translation": translation.hex(), "score": float(score[0])}
        for text, translation, score in zip(
            texts, found["translations"][:, 0].numpy(), scores, strict=True
        )
        # Rounding differs between machines, so hypotheses with close scores may swap.
        if score[0] - score[1] > 0.01
    ]
    lines = ",\n".join(json.dumps(row) for row in expected)
    (version.parent / "expected.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
