"""Score a model's translations of a text against reference translations, with sacreBLEU.

Usage:
    python -m pipelines.evaluate --model runs/en_de --source test.en --target test.de
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli import add_model_options, as_line, load_model, plain_errors, start_log


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(parser)
    parser.add_argument("--source", required=True, help="text, or TSV without --target; .gz too")
    parser.add_argument("--target", help="reference translations, line by line")
    parser.add_argument("--json", metavar="FILE", help="also write the scores here")
    parser.add_argument("--translations", metavar="FILE", help="also write the translations here")
    args = parser.parse_args(argv)
    start_log()
    from keras_transformer.data import read_pairs
    from keras_transformer.evaluation import score

    with plain_errors():
        pairs = read_pairs(args.source, args.target)
        translations = load_model(args)([source for source, _ in pairs], True)
        scores = score(translations, [target for _, target in pairs])
        print(scores)
        if args.translations:
            path = Path(args.translations)
            temporary = path.with_name(path.name + ".tmp")
            text = "".join(f"{as_line(translation)}\n" for translation in translations)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        if args.json:
            scores.to_json(args.json)


if __name__ == "__main__":
    main()
