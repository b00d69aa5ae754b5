"""From text to text: tokenizer, encoder, search and back, in one TensorFlow graph."""

import copy
import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.config.data import PATTERN_PREFIX
from keras_transformer.config.decoding import protect_problems
from keras_transformer.decoding import SearchResult
from keras_transformer.decoding.search import UNFILLED_SCORE
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer, TreeTokenizer
from keras_transformer.text.base import starts_with_tag
from keras_transformer.text.files import read_tokenizers
from keras_transformer.text.protection import write_terms
from keras_transformer.translation.batching import (
    Advance,
    list_of_strings,
    translate_in_batches,
)
from keras_transformer.translation.graph_method import GRAPHS, HOST, TEXT, graph_method
from keras_transformer.translation.inspection import Inspection
from keras_transformer.translation.languages import (
    Languages,
    language_columns,
    language_ids,
    with_languages,
)
from keras_transformer.translation.protected import ProtectedTranslation
from keras_transformer.translation.saved import find_translator, write_translator
from keras_transformer.translation.search import TokenSearch, encode, tree_tokens
from keras_transformer.translation.sentencewise import split_text, translate_sentences

_LANGUAGES = [
    tf.TensorSpec([None], tf.string, name=f"{side}_language") for side in ("source", "target")
]


class Translator(Inspection):
    r"""Translates strings with a trained model.

    Call it with a string, or with a list of any number of strings. `save` writes it to a directory,
    which `Translator.load` reads. The other methods are the signatures of an exported model: from
    `text`, string [B], to tensors of B rows, each of which depends only on its row of `text`. A
    text without tokens, such as "" or a space, has the translation "", with length 0 and score 0.
    Bytes that are not UTF-8 count as U+FFFD. A text of more than `decoding.max_source_length`
    tokens is cut off, except by `document` and `translate_document`. With a `TreeTokenizer` for the
    target, translations are trees over the words of the text.

    A model of many languages translates from `decoding.source_language` to
    `decoding.target_language`, unless a call names others.

    Args:
        model: A trained `Transformer`.
        tokenizer: The tokenizer of the model, such as a `SentencePieceTokenizer`.
        target_tokenizer: The tokenizer of the target, if the languages have separate vocabularies.
        decoding: The search, a `DecodingConfig`; by default the paper's beam of 4. For a model with
            learned positions, sources and translations have at most that many tokens.
        compiled: Whether XLA compiles the search. It is then faster, above all for a single
            sentence, after some seconds at the first call with each shape.
        device: The device that XLA compiles it for, "cpu" or "gpu"; by default a GPU if TensorFlow
            sees one. Results are the same up to rounding; see `compiled_search` for the shapes.

    Raises:
        ValueError: If the model or the tokenizer is something else, or the size of a tokenizer
            differs from that of the model's vocabulary, or it has no tokens for a word of
            `decoding.prefix`, or the device is unknown, or a subclass overrides `decode`,
            `embed_target`, `project` or the `call` of a part of the decoder, which the search does
            not use. Nor does it use the `call` of the model.

    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a b c d e f g"], 270))
    >>> model = Transformer.from_size("tiny", vocab_size=tokenizer.vocab_size, num_layers=1)
    >>> search = DecodingConfig(beam_size=1, extra_length=2)
    >>> translator = Translator(model, tokenizer, decoding=search)
    >>> len(translator(["a b", "c"]))
    2
    >>> sorted(translator.n_best(["a b", "c"]))
    ['scores', 'translations']
    >>> translator.document("a b.\n\nc") == "\n\n".join(translator(["a b.", "c"]))
    True
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        decoding: DecodingConfig | None = None,
        compiled: bool = False,
        device: str | None = None,
    ):
        if not (isinstance(model, Transformer) and isinstance(tokenizer, Tokenizer)):
            raise ValueError(
                "A Translator needs a Transformer and a Tokenizer, received "
                f"{type(model).__name__} and {type(tokenizer).__name__}. To load a model from a "
                "directory, call Translator.load(path)."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.decoding = with_languages(decoding or DecodingConfig(), tokenizer)
        if model.config.position == "learned":
            limits = ("max_source_length", "max_length")
            given = {name: getattr(self.decoding, name) for name in limits}
            most = model.config.max_length
            given = {name: min(value or most, most) for name, value in given.items()}
            self.decoding = dataclasses.replace(self.decoding, **given)
        self.origin: Mapping[str, Any] = {}  # License, attribution and languages, if imported.
        expected = model.config.vocab_size, model.config.target_size
        received = self.tokenizer.vocab_size, self.target_tokenizer.vocab_size
        if expected != received:
            raise ValueError(
                "The tokenizers must have the vocabulary sizes of the model, "
                f"{expected[0]} (source) and {expected[1]} (target); received {received[0]} and "
                f"{received[1]}. Give the tokenizers that the model was trained with."
            )
        prefix = self.target_tokenizer.tokenize([self.decoding.prefix])[0].numpy().tolist()
        trees = tree_tokens(self.target_tokenizer)
        if trees is None and UNK_ID in prefix:  # `TokenSearch` refuses any prefix of trees.
            raise _unknown_prefix(self.target_tokenizer, self.decoding.prefix)
        self._protected = ProtectedTranslation(
            self.tokenizer,
            self.target_tokenizer,
            self.decoding.max_source_length,
            self.decoding.protect,
        )
        kept = self._protected.kept_tokens
        search = TokenSearch(model, self.decoding, prefix, compiled, trees, device, kept)
        self._token_search = search

    @property
    def compiled(self) -> bool:
        """Whether XLA compiles the search."""
        return self._token_search.compiled

    @property
    def device(self) -> str:
        """The device that the search is for, "cpu" or "gpu"; a portable one runs on both."""
        return self._token_search.device

    @property
    def languages(self) -> list[str]:
        """The codes of the languages that a call can name; none for a model of fixed languages."""
        return list(self.tokenizer.languages)

    @property
    def protects(self) -> bool:
        """Whether spans of a text are kept by default, or by symbols of the vocabulary."""
        return bool(self.decoding.protect or self._protected.symbols) and not self.decoding.prefix

    @property
    def makes_trees(self) -> bool:
        """Whether the results are constituency trees, over the words of the text."""
        return isinstance(self.target_tokenizer, TreeTokenizer)

    def with_prepared_weights(self) -> "Translator":
        """Return a translator that prepares the weights of its search once; see `TokenSearch`."""
        translator = copy.copy(self)
        translator._token_search = self._token_search.with_prepared_weights()
        return translator

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the graphs, which belong to this object and cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != GRAPHS}

    @property
    def graph_version(self) -> int:
        """A number that changes when LoRA or int8 gives the model other kernels."""
        return self.model.kernel_version

    def without_lora(self) -> "Translator":
        """Return a translator with a plain model: itself if the model has no LoRA."""
        if not self.model.has_lora:
            return self
        how = self.tokenizer, self.target_tokenizer, self.decoding, self.compiled, self.device
        plain = Translator(self.model.without_lora(), *how)
        plain.origin = self.origin
        return plain

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        *,
        compiled: bool = False,
        device: str | None = None,
        precision: str = "float32",
        **decoding: Any,
    ) -> "Translator":
        """Load a translator, whose `model` can be trained further.

        Args:
            path: A directory that `save` wrote, the directory of a finished training run, or an
                exported SavedModel: a version, or the directory of all versions, whose highest is
                loaded.
            compiled: Whether XLA compiles the search.
            device: The device that XLA compiles it for, "cpu" or "gpu"; by default a GPU if
                TensorFlow sees one.
            precision: Type of weights and matrix products, "float32", "bfloat16" or, for GPUs,
                "float16". Normalization, softmax and everything after the logits are computed in
                float32 in all.
            **decoding: Fields of `DecodingConfig` that override the saved ones.

        Returns:
            The translator.

        Raises:
            FileNotFoundError: If there is no translator.
            ValueError: If a file is damaged, an export lacks its vocabularies, or a decoding option
                is invalid.

        Example:

        ```python
        translator = Translator.load("saved_models/multi30k_en_de", beam_size=1)
        translator("A dog runs on the beach.")
        ```
        """
        saved = find_translator(path)
        model = saved.read_model()
        if precision == "float16" and device != "gpu":
            raise ValueError(
                f"float16 needs device='gpu', received device={device!r}. Use bfloat16 or float32."
            )
        if model.dtype_policy.name != precision:
            model = model.with_dtype(precision)
        tokenizers = read_tokenizers(saved.vocabularies, saved.config.data.subwords)
        search = dataclasses.replace(saved.config.decoding, **decoding)
        translator = cls(model, *tokenizers, search, compiled, device)
        translator.origin = saved.config.origin
        return translator

    def save(self, path: str | os.PathLike) -> None:
        """Save the model, its vocabularies and the decoding options in a directory.

        The directory is accepted wherever a run directory is: by `Translator.load`,
        `training.init_from`, `training.teachers`, and the commands translate, evaluate, figures and
        export. It has the files model.keras (without an optimizer and with LoRA merged),
        config.yaml, and vocabulary.model or source.model and target.model.

        Args:
            path: The directory, which appears only when it is complete. One that `save` wrote is
                replaced.

        Raises:
            FileExistsError: If `path` holds anything else.

        >>> from keras_transformer.text import WordPieceTokenizer, train_word_piece
        >>> tokenizer = WordPieceTokenizer(train_word_piece(["a b c d"], vocab_size=269))
        >>> model = Transformer.from_size("tiny", tokenizer.vocab_size, num_layers=1)
        >>> translator = Translator(model, tokenizer, decoding=DecodingConfig(extra_length=2))
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     translator.save(f"{folder}/letters")
        ...     loaded = Translator.load(f"{folder}/letters")
        >>> loaded("a b") == translator("a b")
        True
        """
        tokenizers = self.tokenizer, self.target_tokenizer
        write_translator(path, self.model, tokenizers, self.decoding, self.origin)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also an Iterable[str]
        self,
        sentences: str,
        batch_size: int | None = None,
        progress: bool | Advance = False,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        terms: Mapping[str, str] | None = None,
        protect: Sequence[str] | None = None,
    ) -> str: ...

    @overload
    def __call__(
        self,
        sentences: Iterable[str],
        batch_size: int | None = None,
        progress: bool | Advance = False,
        source_language: Languages = None,
        target_language: Languages = None,
        *,
        terms: Mapping[str, str] | None = None,
        protect: Sequence[str] | None = None,
    ) -> list[str]: ...

    def __call__(
        self,
        sentences,
        batch_size=None,
        progress=False,
        source_language=None,
        target_language=None,
        *,
        terms=None,
        protect=None,
    ):
        """Translate a string, or strings in batches of similar length.

        See `translate_in_batches`.

        Args:
            sentences: A string, or any number of strings: a list, or what Python can iterate over,
                such as a generator or a column of a table.
            batch_size: The number of sentences per batch; by default 64, or 256 with a GPU.
            progress: Whether to show a progress bar; or a function to call with the sentences of
                each batch that is done.
            source_language: The language of all sentences, or a list with one for each: codes of
                `languages`, or names and codes that mean one, such as "German" and "de". By
                default, that of `decoding`.
            target_language: The language of the translations, likewise.
            terms: What must be translated how, such as `{"invoice*": "Rechnung"}`. A key is whole
                words, in any case; a * at its end stands for any letters.
            protect: What is kept as it is, such as `["printf", "html"]` or `["all"]`: the names of
                `DecodingConfig.protect`, which is the default.

        Returns:
            A string for a string; otherwise a list of the translations, in the order of the
            sentences.

        Raises:
            TypeError: If `sentences` holds anything but strings.
            ValueError: If the model has no such language, a term or a name cannot be used, both
                are given, or terms or names with `decoding.prefix`.
        """
        texts = list_of_strings([sentences] if isinstance(sentences, str) else sentences)
        self._warn_of_unknown_tags(texts)
        named = {"source_language": source_language, "target_language": target_language}
        translate, columns = self.translate, ()
        if any(languages is not None for languages in named.values()):
            if terms or protect or self.decoding.protect:
                raise ValueError(
                    "A call must have languages, or terms and protected spans, received both. Load "
                    "the translator with its source_language and target_language to protect."
                )
            defaults = {name: getattr(self.decoding, name) for name in named}
            columns = language_columns(named, defaults, self.tokenizer, len(texts))
            translate = self.translate_between
        elif (names := self._names(protect)) != self.decoding.protect or terms:
            glossary = write_terms(terms or {})

            def translate(text):
                options = (tf.fill(tf.shape(text), each) for each in (glossary, names))
                return self.translate_with_terms(text, *options)["translation"]

        translations = translate_in_batches(translate, texts, batch_size, progress, columns)
        return translations[0] if isinstance(sentences, str) else translations

    def document(self, text: str, **options: Any) -> str:
        r"""Translate a text of any length, sentence by sentence; see `documents`.

        Args:
            text: A text, whose paragraphs and lines stay.
            **options: The arguments of a call, such as `terms`; one language on each side.

        Example:

        ```python
        translator.document("A dog runs. A cat sleeps.\n\nTwo men talk.")
        ```
        """
        return self.documents([text], **options)[0]

    def documents(self, texts: Iterable[str], **options: Any) -> list[str]:
        """Translate texts of any length, whose sentences share batches.

        Sentences are translated as if each was alone. The white space between them stays, and so
        does what has no letter. A line is one sentence or more. A sentence of more tokens than the
        model reads is split, after commas if it has some.

        Args:
            texts: Any number of texts.
            **options: The arguments of a call, such as `terms`; one language on each side.

        Returns:
            The translations, in the order of the texts.

        Raises:
            ValueError: If the translations are trees, or for the reasons of a call.
        """
        if self.makes_trees:
            raise ValueError("A parser has no documents. Call it with a list of sentences.")
        encoded = [x.encode("utf-8", "surrogatepass") for x in list_of_strings(texts, "texts")]
        tags, pieces = self._split(tf.constant(encoded, tf.string))
        tags = [tag.decode() for tag in tags.numpy()]
        rows = [[piece.decode() for piece in row] for row in pieces.to_list()]
        places = [
            (number, i)
            for number, row in enumerate(rows)
            for i in range(0, len(row), 2)
            if any(map(str.isalpha, row[i]))
        ]
        sentences = [tags[number] + rows[number][i] for number, i in places]
        for (number, i), translation in zip(places, self(sentences, **options), strict=True):
            rows[number][i] = translation
        return ["".join(row) for row in rows]

    def _warn_of_unknown_tags(self, texts: Sequence[str]) -> None:
        known = getattr(self.tokenizer, "language_tags", [])
        found = {f"{text.partition('<<')[0]}<<" for text in texts if starts_with_tag(text)}
        if known and (unknown := found - set(known)):
            warnings.warn(
                f"The model has no tag {', '.join(sorted(unknown)[:5])}, which texts begin with. "
                f"It has {', '.join(known[:5])}{', ...' if len(known) > 5 else ''}.",
                stacklevel=3,
            )

    def _names(self, protect: Sequence[str] | None) -> str:
        """Return what is kept as it is, as in `DecodingConfig.protect`."""
        if protect is None:
            return self.decoding.protect
        names = " ".join([protect] if isinstance(protect, str) else protect)
        own = self.decoding.protect.replace(",", " ").split()
        problems = protect_problems(names) or [
            f"protect must have regular expressions when the model is loaded, received {word!r}; "
            f"call Translator.load with protect={names!r}"
            for word in names.replace(",", " ").split()
            if word.startswith(PATTERN_PREFIX) and word not in own
        ]
        if problems:
            raise ValueError(f"{'; '.join(problems)}.")
        return names

    @graph_method(TEXT)
    def translate(self, text: tf.Tensor) -> tf.Tensor:
        """Return the translations, string [B], of texts, string [B]."""
        if self.decoding.protect:
            protect, terms = (tf.fill(tf.shape(text), x) for x in (self.decoding.protect, ""))
            return self.translate_with_terms(text, terms, protect)["translation"]
        return self._write(self._best_ids(text), text)

    @graph_method(TEXT, *(tf.TensorSpec([None], tf.string, name=x) for x in ("terms", "protect")))
    def translate_with_terms(
        self, text: tf.Tensor, terms: tf.Tensor, protect: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return translations that use given terms and keep spans of the text.

        Args:
            text: string [B].
            terms: string [B], lines of source, tab and target; "" for none.
            protect: string [B], names of what is kept, as in `DecodingConfig.protect`; "" for
                nothing.

        Returns:
            A dictionary: `translation`, string [B].

        Raises:
            ValueError: If `decoding.prefix` is set.
        """
        if self.decoding.prefix:  # Each piece of a text would start with it.
            raise ValueError(
                "prefix must be empty for terms and protected spans, received "
                f"{self.decoding.prefix!r}. Leave one out."
            )

        def search(text, kept):
            with tf.device(None):
                return self._best_ids(text, kept)

        # `tf.stack` fails on inputs of different lengths.
        with tf.device(HOST):
            text, terms, protect = tf.unstack(tf.stack([text, terms, protect]))
            return {"translation": self._protected(search, text, protect, terms)}

    @graph_method(TEXT)
    def translate_document(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the translations of texts of any length, sentence by sentence.

        Args:
            text: string [B].

        Returns:
            A dictionary: `translation`, string [B], with the white space between the sentences of
            the text.
        """

        def translate(sentences):
            with tf.device(None):
                return self.translate(sentences)

        with tf.device(HOST):
            return {"translation": translate_sentences(translate, *self._split(text))}

    @graph_method(TEXT)
    def _split(self, text):
        with tf.device(HOST):
            return split_text(text, self.tokenizer, self.decoding.max_source_length)

    @graph_method(TEXT, *_LANGUAGES)
    def translate_between(
        self, text: tf.Tensor, source_language: tf.Tensor, target_language: tf.Tensor
    ) -> tf.Tensor:
        """Return the translations, string [B], of texts between the languages of each row.

        They do not follow `DecodingConfig.protect`.

        Args:
            text: string [B].
            source_language: string [B], codes of `languages`.
            target_language: string [B], likewise.
        """
        with tf.device(HOST):
            # `tf.stack` fails on inputs of different lengths.
            columns = tf.unstack(tf.stack([text, source_language, target_language]))
            text, *given = columns
            names = ("source_language", "target_language")
            ids = [
                language_ids(codes, self._tokenizer_of(name), name)
                for codes, name in zip(given, names, strict=True)
            ]
        return self._write(self._best_ids(text, languages=ids), text)

    @graph_method(TEXT)
    def translate_with_scores(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the translations and their scores.

        They do not follow `DecodingConfig.protect`.

        Args:
            text: string [B].

        Returns:
            A dictionary:
            - `translation`: string [B].
            - `score`: float32 [B], log-probability / length penalty, at most 0.
            - `length`: int32 [B], the number of tokens of the translation, including eos.
        """
        best = self._search_text(text, num_hypotheses=1)[1]
        return {
            "translation": self._write(best.ids[:, 0], text),
            "score": best.scores[:, 0],
            "length": best.lengths[:, 0],
        }

    @graph_method(TEXT)
    def n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the N = `decoding.num_hypotheses` best translations, best first.

        Two may be the same text, in different tokens. If there are fewer than N, the rest are ""
        with score -1e9. They do not follow `DecodingConfig.protect`.

        Args:
            text: string [B].

        Returns:
            A dictionary:
            - `translations`: string [B, N].
            - `scores`: float32 [B, N], log-probability / length penalty.
        """
        n = self.decoding.num_hypotheses or self.decoding.beam_size
        found = self._search_text(text, num_hypotheses=n)[1]
        batch, length = tf.shape(found.ids)[0], tf.shape(found.ids)[2]
        with tf.device(HOST):
            ids, texts = tf.reshape(found.ids, [batch * n, length]), tf.repeat(text, n)
            translations = tf.reshape(self._write(ids, texts), [-1, n])
        return {"translations": translations, "scores": found.scores}

    def _write(self, ids, texts):
        with tf.device(HOST):
            return self.target_tokenizer.write(ids, texts)

    def _best_ids(self, text, kept=None, languages=None):
        """Return the ids of the best translations [B, T]."""
        # Greedy search is faster without scores. Others share a graph with other methods.
        scores = self.decoding.beam_size > 1 or self.decoding.temperature is not None
        best = self._search_text(text, 1, scores, languages, kept)[1]
        return best.ids[:, 0]

    def _search_text(self, text, num_hypotheses, scores=True, languages=None, kept=None):
        """Return the ids [B, S] of the texts, and the result of the search.

        `languages` are the ids of those of source and target, int32 [B] each.
        """
        names = ("source_language", "target_language")
        # An input of the graph, so that one is enough for all languages.
        languages = languages or [self._languages(text, name) for name in names]
        return self._search_languages(text, languages, num_hypotheses, scores, kept)

    @graph_method()
    def _search_languages(self, text, languages, num_hypotheses, scores, kept):
        source_language, target_language = languages
        source, lengths = self.encode_text(text, source_language)
        num_words = self.count_words(text, lengths)
        options = num_hypotheses, scores, num_words, target_language, kept
        found = self.search(source, lengths, *options)
        # An empty text has an empty translation.
        with tf.device(HOST):
            empty = 1 if source_language is None else 2
            is_text = (lengths > empty if num_words is None else num_words > 0)[:, tf.newaxis]
            nothing = tf.one_hot(0, num_hypotheses, on_value=0.0, off_value=UNFILLED_SCORE)
            return source, SearchResult(
                ids=tf.where(is_text[:, :, tf.newaxis], found.ids, PAD_ID),
                scores=tf.where(is_text, found.scores, nothing),
                lengths=tf.where(is_text, found.lengths, 0),
            )

    def count_words(self, text: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor | None:
        """Return the number of words that trees are searched for, int32 [B]; None without trees.

        Args:
            text: string [B].
            lengths: int32 [B], as `encode_text` returns them.
        """
        if not isinstance(self.target_tokenizer, TreeTokenizer):
            return None
        with tf.device(HOST):
            # Only the beginning of a long text is encoded, and some words have no tokens at all.
            most = tf.maximum(lengths - 1, 1)
            return tf.minimum(self.target_tokenizer.count_words(text), most)

    def _languages(self, text, name):
        """Return the ids of a language of `decoding` for texts, or None if the model has none."""
        if not self.tokenizer.languages:
            return None
        if (code := getattr(self.decoding, name)) is None:
            option = "--from" if name == "source_language" else "--to"
            raise ValueError(
                f"A model of {len(self.languages)} languages needs {name}, received none. Give it "
                f"to the call or to Translator.load, or {option} to a command."
            )
        return tf.fill(tf.shape(text), self._tokenizer_of(name).languages[code])

    def _tokenizer_of(self, language):
        return self.tokenizer if language == "source_language" else self.target_tokenizer

    def encode_text(
        self, text: tf.Tensor, languages: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return ids int32 [B, S] with eos and padding, and lengths int32 [B] including eos.

        Args:
            text: string [B].
            languages: int32 [B], the ids of their languages; by default, that of `decoding`.
        """
        with tf.device(HOST):
            if languages is None:
                languages = self._languages(text, "source_language")
            longest, last = self.decoding.max_source_length, self.tokenizer.language_comes_last
            return encode(self.tokenizer, text, longest, languages, last)

    def search(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        num_hypotheses: int = 1,
        scores: bool = True,
        num_words: tf.Tensor | None = None,
        first_tokens: tf.Tensor | None = None,
        kept: tf.Tensor | None = None,
    ) -> SearchResult:
        """Return the ids of the best translations of ids [B, S]; see `TokenSearch`."""
        if first_tokens is None:
            first_tokens = self._languages(lengths, "target_language")
        options = num_hypotheses, scores, num_words, first_tokens, kept
        return self._token_search(source, lengths, *options)


def _unknown_prefix(tokenizer: Tokenizer, prefix: str) -> ValueError:
    """Return the error for a prefix that the vocabulary has no tokens for."""
    words = prefix.split()
    rows = tokenizer.tokenize(words).to_list()
    unknown = [word for word, ids in zip(words, rows, strict=True) if UNK_ID in ids]
    return ValueError(
        "prefix must be text that the vocabulary of the target has tokens for, received "
        f"{prefix!r}, and it has none for {', '.join(map(repr, unknown or [prefix]))}. Choose "
        "another text, or leave it out."
    )
