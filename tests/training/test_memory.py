import platform

import pytest
from tests.helpers.tiny import run_python

PAGES_OF_STEPS = """
import resource
import sys
import tensorflow as tf
from keras_transformer.training import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

@tf.function
def step(x):
    large = tf.fill([25_000_000], x) * 3.0  # 100 MB, larger than a thread's arena can hold.
    return tf.reduce_sum(large[:10_000_000] * 2.0) + tf.reduce_sum(large)

def of_ten_steps():
    before = pages()
    for _ in range(10):
        step(tf.constant(2.0)).numpy()
    return (pages() - before) / 10

# The first turns find memory for each thread.
print(min(of_ten_steps() for _ in range(5)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_step_asks_for_no_new_pages():
    usual, kept = (
        float(run_python("-c", PAGES_OF_STEPS, name).stdout) for name in ("usual", "keep")
    )
    if usual < 5000:
        pytest.skip(f"without being told, a step asks for {usual:.0f} pages here")
    assert kept < usual / 20
