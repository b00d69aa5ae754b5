import platform

import pytest
from tiny import run_python

PAGES_OF_STEPS = """
import resource
import sys
import tensorflow as tf
from keras_transformer.training import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    tf.reduce_sum(tf.fill([10_000_000], 2.0) * 3.0).numpy()  # 40 MB, or twice that

for _ in range(30):
    step()
before = pages()
for _ in range(20):
    step()
print((pages() - before) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_step_asks_for_no_new_pages():
    usual, kept = (
        float(run_python("-c", PAGES_OF_STEPS, name).stdout) for name in ("usual", "keep")
    )
    if usual < 5000:
        pytest.skip(f"without being told, a step asks for {usual:.0f} pages here")
    assert kept < usual / 20
