"""Adam (Section 5.3), as fast as the memory is."""

import keras


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam, whose whole update XLA compiles into one pass over the weights (Section 5.3).

    Operation by operation, as Keras makes it, an update goes over weights, gradients and both
    moments a dozen times. It is compiled with TensorFlow on CPUs, in a graph such as that of
    `model.fit`, where there is no `tf.distribute` strategy: once for each trace of the step, since
    nothing in it depends on the batch. Elsewhere it is Keras's, operation by operation.

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

    def apply(self, grads, trainable_variables=None):
        if keras.backend.backend() != "tensorflow":
            super().apply(grads, trainable_variables)
            return
        import tensorflow as tf

        # Those of an embedding alone are tf.IndexedSlices, with a row for each place in the batch.
        grads = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        if (
            tf.executing_eagerly()  # It would be compiled anew in each step.
            or tf.distribute.has_strategy()  # Keras merges the replicas' calls.
            or tf.config.list_physical_devices("GPU")
        ):
            super().apply(grads, trainable_variables)
            return

        @tf.function(jit_compile=True, autograph=False)
        def update(grads):
            super(FusedAdam, self).apply(grads, trainable_variables)

        update(grads)
