"""The GPU benchmark on the CPU: vocabularies, processes, a profile, and the whole report."""

import json
import time

import pytest
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.gpu import enlarge
from benchmarks.gpu_training import fused_operations, kernel_events, kernel_kind, summarize
from benchmarks.gpu_worker import Group, Schedule, Worker
from keras_transformer.text import train_sentencepiece
from tests.helpers.tiny import run_python, toy_pairs

CELLS = """
import os
import time

def cell(name):
    def run(seconds):
        time.sleep(seconds)
        return {"name": name}

    return {"started": name}, run

def second_try():
    return cell(os.environ["TRY"])
"""


def test_a_vocabulary_is_enlarged_by_pieces_that_no_text_has():
    import sentencepiece

    small = train_sentencepiece((line for pair in toy_pairs(200) for line in pair), 300)
    large = sentencepiece.SentencePieceProcessor(model_proto=enlarge(small, 5000))
    small = sentencepiece.SentencePieceProcessor(model_proto=small)
    assert large.vocab_size() == 5000
    assert large.encode("one two 17") == small.encode("one two 17")


@pytest.mark.slow
def test_a_failure_and_the_end_of_the_time_cost_no_other_result(monkeypatch, tmp_path):
    (tmp_path / "cells.py").write_text(CELLS)
    monkeypatch.syspath_prepend(tmp_path)
    where = "cells:cell"
    failing = [
        Worker("os:abort", {}, [{}]),
        Worker("math:no_function", {}, [{}]),
        Worker("cells:second_try", {}, [{"seconds": 0}], environments=[{}, {"TRY": "2"}]),
    ]
    runs = [{"seconds": 0}, {"seconds": "no number"}, {"seconds": 0.01}]
    good = Worker(where, {"name": "good"}, runs, [{"seconds": 0.02}], labels={"engine": "a"})
    late = Worker(where, {"name": "late"}, [{"seconds": 600}])
    records = []
    groups = [
        Group("first", {"model": "m"}, [*failing, good], 1, repeats=2),
        Group("second", {}, [late], 50),
        Group("third", {}, [Worker(where, {"name": "never"})], 100),
    ]
    deadline = time.monotonic() + 10
    Schedule(groups, tmp_path, records.append, deadline, 50, cores=8, limit=30).run()
    assert time.monotonic() < deadline + 5
    errors = [record["error"] for record in records if "error" in record]
    assert sum(error.startswith("ended: ") for error in errors) == 1
    assert sum("no_function" in error for error in errors) == 1
    assert sum("KeyError: 'TRY'" in error for error in errors) == 1
    assert [r["part"] for r in records if r.get("name") == "2"] == ["first", "first"]
    of_good = [r for r in records if r.get("engine") == "a" and r["part"] == "first"]
    assert [r["seconds"] for r in of_good if r.get("name")] == [0, 0.01, 0, 0.01, 0.02]
    assert sum("TypeError" in error for error in errors) == 2
    assert [r["part"] for r in records if "no answer" in r.get("error", "")] == ["second"]
    assert [r["part"] for r in records if r.get("error") == "not reached"] == ["third"]


def test_the_kernels_of_a_profile_have_their_kinds_and_gaps():
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/device:GPU:0")
    plane.stat_metadata[1].name = "tf_op"
    plane.stat_metadata[2].name = "model/adam/mul"
    names = {1: "nvjet_gemm", 2: "fusion_7", 3: "MemcpyH2D"}
    for number, name in names.items():
        plane.event_metadata[number].name = name
    stream = plane.lines.add(name="Stream #1", timestamp_ns=5)
    for number, start, milliseconds in ((1, 0, 4), (2, 6, 2), (3, 9, 1)):
        event = stream.events.add(metadata_id=number, offset_ps=start * 10**9)
        event.duration_ps = milliseconds * 10**9
        if number == 2:
            event.stats.add(metadata_id=1, ref_value=2)
    plane.lines.add(name="XLA Ops").events.add(metadata_id=1, duration_ps=10**12)
    space.planes.add(name="/host:CPU").lines.add(name="Stream").events.add(duration_ps=10**12)
    program = hlo_pb2.HloProto()
    program.hlo_module.name = "step"
    inner = program.hlo_module.computations.add(id=1)
    for name in ("decoder/dropout/mul", "decoder/softmax", "decoder/softmax"):
        inner.instructions.add(name="inner").metadata.op_name = name
    outer = program.hlo_module.computations.add(id=2)
    outer.instructions.add(name="fusion_9", called_computation_ids=[1])
    metadata = space.planes.add(name="/host:metadata").event_metadata[1]
    metadata.stats.add(bytes_value=program.SerializeToString())
    assert fused_operations(space.planes)["step", "fusion_9"] == "decoder/softmax"
    found = summarize(list(kernel_events(space.planes)), steps=2)
    kinds = {"products": 2.0, "optimizer": 1.0, "copies": 0.5}
    assert (found["kinds"], found["span"], found["waits"], found["kernels"]) == (kinds, 5, 1.5, 1.5)
    assert found["top"][1] == ["fusion_7", "model/adam/mul", 1.0, 0.5]
    assert kernel_kind("input_scatter_fusion", "encoder/embeddings/gather") == "embeddings"


@pytest.mark.slow
@pytest.mark.parity
def test_all_parts_on_the_cpu(parallel, monkeypatch, tmp_path):
    for needed in ("torch", "jax", "transformers", "ctranslate2"):
        pytest.importorskip(needed)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    output = tmp_path / "found.jsonl"
    files = parallel(toy_pairs(400))
    (tmp_path / "test").write_text("A dog runs.\n")
    options = ("--trial", "--minutes", "8", *files, "--test", tmp_path / "test")
    run_python("-m", "benchmarks.gpu", *options, "--output", output)
    printed = run_python("-m", "benchmarks.gpu", "--report", output).stdout
    records = [json.loads(line) for line in output.read_text().splitlines()]
    failed = [record for record in records if "error" in record]
    # A CPU has no kernels to profile.
    assert [record.get("action") for record in failed] == ["profile"], failed
    for trainer in ("ours", "ours (JAX)", "PyTorch"):
        assert f"| tiny | {trainer} |" in printed
    for engine in ("ours", "Hugging Face, bfloat16", "CTranslate2"):
        assert f"| 300 | 4 | 4 | 2 | {engine} |" in printed
    assert "- differ: 0" in printed and "- paces:" in printed
    assert [r["difference"] < 1e-4 for r in records if "difference" in r] == [True, True]
