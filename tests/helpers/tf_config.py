"""The variable that names the machines of a run."""

import json


def tf_config(index, kind="worker", **jobs):
    return json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})
