"""Adam (Section 5.3) with one TensorFlow operation per update."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from collections import UserDict
from collections.abc import Sequence
from typing import Any

import keras

__all__ = ["FusedAdam"]


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(keras.optimizers.Adam):
    """Update each weight with a single TensorFlow operation (Section 5.3).

    Keras's Adam reads and writes the weights, gradients and moments a dozen times per update; the
    fused operation does so once. Arguments and state are those of `keras.optimizers.Adam`, which
    it falls back to on other backends, for weights that are not float32, and with `amsgrad`.

    Results are the same too, with one exception: an embedding that is not tied to the softmax gets
    a separate gradient for each occurrence of a token. Keras squares these before it adds them up,
    and this optimizer after.

    >>> weight = keras.Variable([1.0, 2.0])
    >>> adam = FusedAdam(learning_rate=0.5)
    >>> adam.apply([keras.ops.array([3.0, -4.0])], [weight])
    >>> keras.ops.convert_to_numpy(weight).round(3).tolist()  # the first step has the rate's size
    [0.5, 2.5]
    """

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: str = "zeros"
    ) -> Any:
        variable = super().add_variable_from_reference(
            reference_variable, name=name, initializer=initializer
        )
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            if not hasattr(self, "_moments"):
                # The moments of each variable on each replica. A plain dict would become part of
                # `tf.train.Checkpoint`, which refuses its keys.
                self._moments: Any = UserDict()
            is_keras = isinstance(reference_variable, keras.Variable)
            values = reference_variable.value if is_keras else reference_variable
            local = tf.distribute.get_strategy().experimental_local_results
            for part, moment in zip(local(values), local(variable.value), strict=True):
                self._moments[part.ref(), name] = moment
        return variable

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            # An untied embedding has tf.IndexedSlices, one row per occurrence, which Keras would
            # clip row by row.
            grads = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        super().apply(grads, trainable_variables)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        is_tensorflow = keras.backend.backend() == "tensorflow"
        if not is_tensorflow or self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        step = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._moments[variable.ref(), "momentum"].handle,
            v=self._moments[variable.ref(), "velocity"].handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )
