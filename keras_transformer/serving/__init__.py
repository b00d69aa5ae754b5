"""A model server in Python, with the REST and gRPC protocols of TensorFlow Serving.

`pipelines.serve` starts it. It needs the `[serve]` extra.
"""
