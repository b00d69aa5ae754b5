import numpy as np
from layer_checks import as_array

from keras_transformer.layers import causal_mask, padding_mask


def test_padding_is_id_zero():
    ids = np.array([[7, 8, 0], [0, 3, 1]])
    expected = [[[True, True, False]], [[False, True, True]]]
    assert as_array(padding_mask(ids)).tolist() == expected


def test_a_position_attends_to_itself_and_what_precedes_it():
    assert as_array(causal_mask(3)).astype(int).tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_queries_are_the_last_of_the_keys_positions():
    assert as_array(causal_mask(2, 4)).astype(int).tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]
