"""The messages of TensorFlow and TensorFlow Serving, without TensorFlow itself.

Their modules lie in the package `tensorflow`, whose import takes seconds and 170 MB.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def _messages_only() -> Iterator[None]:
    """Let the block import modules of the package `tensorflow` without running the package."""
    spec = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if spec is None:  # It is imported, or missing.
        yield
        return
    sys.modules["tensorflow"] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules["tensorflow"]  # A later import runs it.


with _messages_only():
    from tensorflow.core.framework import tensor_pb2 as tensor_pb2
    from tensorflow.core.protobuf import config_pb2 as config_pb2
    from tensorflow.core.protobuf import saved_model_pb2 as saved_model_pb2
    from tensorflow_serving.apis import get_model_metadata_pb2 as get_model_metadata_pb2
    from tensorflow_serving.apis import get_model_status_pb2 as get_model_status_pb2
    from tensorflow_serving.apis import model_service_pb2_grpc as model_service_pb2_grpc
    from tensorflow_serving.apis import predict_pb2 as predict_pb2
    from tensorflow_serving.apis import prediction_log_pb2 as prediction_log_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc as prediction_service_pb2_grpc
    from tensorflow_serving.config import model_server_config_pb2 as model_server_config_pb2
