"""What a program has written for TensorBoard."""

import tensorflow as tf


def logged(directory):
    """Return the values of each tag by step."""
    found = {}
    for path in sorted(directory.iterdir()):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                content = tf.make_ndarray(value.tensor)
                found.setdefault(value.tag, {})[event.step] = content
    return found
