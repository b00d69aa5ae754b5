"""Adam (Section 5.3), as fast as the memory is."""

import keras


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam, whose update of a weight is one operation of TensorFlow (Section 5.3).

    Operation by operation, as Keras makes it, an update goes over weights, gradients and both
    moments a dozen times. With other backends, for weights that are not in float32, and with
    `amsgrad` it is Keras's.

    Arguments and state are those of `keras.optimizers.Adam`. So are the results, but for an
    embedding that is not tied to the softmax: where a subword comes more than once in a batch,
    TensorFlow gives a gradient for each place, which Keras squares before it adds them up, and
    this after.

    >>> weight = keras.Variable([1.0, 2.0])
    >>> adam = FusedAdam(learning_rate=0.5)
    >>> adam.apply([keras.ops.array([3.0, -4.0])], [weight])
    >>> keras.ops.convert_to_numpy(weight).round(3).tolist()  # A first step is of the rate's size.
    [0.5, 2.5]
    """

    def build(self, var_list):
        if not self.built:
            self._moments = _Moments()
        super().build(var_list)

    def add_variable_from_reference(self, reference_variable, name=None, initializer="zeros"):
        variable = super().add_variable_from_reference(
            reference_variable, name=name, initializer=initializer
        )
        if _tensorflow():
            self._moments.add(name, reference_variable, variable)
        return variable

    def apply(self, grads, trainable_variables=None):
        if tf := _tensorflow():
            # Those of an embedding alone are tf.IndexedSlices, with a row for each place in the
            # batch, and would be clipped row by row.
            grads = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        tf = _tensorflow()
        if not tf or self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)
            return
        moments = self._moments.of(variable)
        step = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=moments["momentum"].handle,
            v=moments["velocity"].handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, tf.float32),
        )


class _Moments:
    """What Adam keeps beside each TensorFlow variable, of each replica.

    A dict of the optimizer's own would be part of a `tf.train.Checkpoint`, which refuses its keys.
    """

    def __init__(self):
        self._by_variable = {}

    def add(self, name, variable, moment):
        tf = _tensorflow()
        values = variable.value if isinstance(variable, keras.Variable) else variable
        parts = map(tf.distribute.get_strategy().experimental_local_results, (values, moment.value))
        for part, moment_part in zip(*parts, strict=True):
            self._by_variable.setdefault(part.ref(), {})[name] = moment_part

    def of(self, variable):
        return self._by_variable[variable.ref()]


def _tensorflow():
    """Return TensorFlow where it is the backend, else None."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    return tf
