import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_transformer.export.serving_files import write_serving_files

# Those of the server's messages that are in no package, after its session_bundle_config.proto and
# monitoring_config.proto.
SCHEMA = """
name: "server.proto" package: "server" syntax: "proto3"
message_type { name: "Int64Value" field { name: "value" number: 1 type: TYPE_INT64 } }
message_type {
  name: "BatchingParameters"
  field { name: "max_batch_size" number: 1 type: TYPE_MESSAGE type_name: "Int64Value" }
  field { name: "batch_timeout_micros" number: 2 type: TYPE_MESSAGE type_name: "Int64Value" }
  field { name: "max_enqueued_batches" number: 3 type: TYPE_MESSAGE type_name: "Int64Value" }
}
message_type {
  name: "PrometheusConfig"
  field { name: "enable" number: 1 type: TYPE_BOOL }
  field { name: "path" number: 2 type: TYPE_STRING }
}
message_type {
  name: "MonitoringConfig"
  field { name: "prometheus_config" number: 1 type: TYPE_MESSAGE type_name: "PrometheusConfig" }
}
"""


@pytest.fixture(scope="module")
def messages():
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto()))
    names = ("BatchingParameters", "MonitoringConfig")
    found = (pool.FindMessageTypeByName(f"server.{name}") for name in names)
    return [message_factory.GetMessageClass(message) for message in found]


def test_a_server_can_parse_them(described, messages):
    batching_parameters, monitoring_config = messages
    serving = described.version.parent / "serving"
    for path in (serving / "batching.config", described.version / "batching_params.pbtxt"):
        batching = text_format.Parse(path.read_text(), batching_parameters())
        assert batching.max_batch_size.value == 64
        assert batching.batch_timeout_micros.value > 0
    text = (serving / "monitoring.config").read_text()
    prometheus = text_format.Parse(text, monitoring_config()).prometheus_config
    assert prometheus.enable
    assert prometheus.path == "/monitoring/prometheus/metrics"
    text = (serving / "models.config").read_text()
    models = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (config,) = models.model_config_list.config
    assert (config.name, config.base_path) == ("toy model", str(described.version.parent))
    assert config.model_platform == "tensorflow"
    assert config.model_version_policy.latest.num_versions == 1


@pytest.mark.parametrize("name", ["en_de", 'a "b"', "Größe"])
def test_a_model_may_have_any_name(name, tmp_path):
    (tmp_path / name).mkdir()
    write_serving_files(tmp_path / name, "cpu")
    text = (tmp_path / name / "serving" / "models.config").read_text(encoding="utf-8")
    models = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    assert models.model_config_list.config[0].name == name


def test_a_link_keeps_its_name(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "en_de").symlink_to(tmp_path / "disk")
    write_serving_files(tmp_path / "en_de", "cpu")
    assert 'name: "en_de"' in (tmp_path / "disk" / "serving" / "models.config").read_text()


def test_files_that_the_operator_edited_are_kept(tmp_path):
    write_serving_files(tmp_path, "cpu")
    files = sorted((tmp_path / "serving").iterdir())
    batching, models, monitoring = files
    written = models.read_text()
    batching.write_text("max_batch_size { value: 8 }")
    models.unlink()
    write_serving_files(tmp_path, "cpu")
    assert batching.read_text() == "max_batch_size { value: 8 }"
    assert models.read_text() == written
    assert sorted((tmp_path / "serving").iterdir()) == files
