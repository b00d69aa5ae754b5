"""The optimizers that TensorFlow runs over a graph before its first run."""

from typing import Any


def leave_out_slow_optimizers(config: Any) -> None:
    """Turn off what takes more than half of the time until a signature is ready.

    Exports are no slower without them.

    Args:
        config: A `ConfigProto` of TensorFlow, which is changed.
    """
    rewrites = config.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = rewrites.ONE
    rewrites.disable_tfg_optimizer = True
    rewrites.memory_optimization = rewrites.NO_MEM_OPT
    rewrites.constant_folding = rewrites.OFF  # TensorFlow folds constants again later.
    rewrites.implementation_selector = rewrites.OFF
    rewrites.layout_optimizer = rewrites.OFF
    rewrites.loop_optimization = rewrites.OFF
    rewrites.shape_optimization = rewrites.OFF
