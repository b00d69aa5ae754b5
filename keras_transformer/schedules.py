"""The paper's learning rate (Section 5.3)."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from typing import Any

import keras
from keras import ops

__all__ = ["NoamSchedule"]


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Compute scale * D^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (Section 5.3, eq. 3).

    The rate rises for `warmup_steps` steps, then falls with the square root of the step. Steps
    count from 1: an optimizer at iteration 0 uses the rate of step 1.

    Args:
        d_model: D, the width of the model.
        warmup_steps: The step with the highest rate.
        scale: A factor on the rate.

    Raises:
        ValueError: If an argument is not above 0.

    >>> schedule = NoamSchedule(d_model=512, warmup_steps=4000)
    >>> round(float(schedule(3999)), 7)
    0.0006988
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0):
        super().__init__()
        for name, value in (("d_model", d_model), ("warmup_steps", warmup_steps), ("scale", scale)):
            if value <= 0:
                raise ValueError(f"{name} must be above 0, received {value}.")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32") + 1.0
        rise = step * self.warmup_steps**-1.5
        return self.scale * self.d_model**-0.5 * ops.minimum(ops.rsqrt(step), rise)

    def get_config(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
