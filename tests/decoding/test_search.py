import dataclasses

from keras_transformer.decoding import SearchOptions
from keras_transformer.decoding.search import SearchKeywords


def test_the_keyword_arguments_of_the_searches_are_the_options():
    options = {field.name: field.type for field in dataclasses.fields(SearchOptions)}
    assert SearchKeywords.__annotations__ == options
