"""SentencePiece models as Marian's users train them: unk 0, no padding, no bytes."""

import io

import sentencepiece

from tests.helpers.tiny import toy_pairs


def train_spm(side, model_type="unigram"):
    """Return a model of one side of the toy language, of about 60 pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([pair[side] for pair in toy_pairs(300)]),
        model_writer=written,
        vocab_size=60,
        hard_vocab_limit=False,
        model_type=model_type,
        minloglevel=2,
    )
    return written.getvalue()


def spm_pieces(model):
    """Return the pieces of a model but for unk, bos and eos."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
