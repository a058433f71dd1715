"""A dense network, trained with fit() and asked with predict(), in TensorFlow.

Stands for: Keras as its tutorials have it.
"""

import numpy as np
import tensorflow as tf

assert tf.config.list_physical_devices("GPU"), "TensorFlow found no GPU"
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential(
    [tf.keras.layers.Input((1024,))]
    + [tf.keras.layers.Dense(1024, activation="relu") for _ in range(12)]
    + [tf.keras.layers.Dense(10)])
model.compile("sgd", "mse")
x, y = np.ones((64, 1024), "f"), np.ones((64, 10), "f")
model.fit(x, y, epochs=2, verbose=0, shuffle=False)
print("predicted", np.abs(model.predict(x, verbose=0)).sum())
