"""A network of convolutions and a transformer in Keras: fit(), evaluate(), predict(), tf.data.

Stands for: Keras's examples of images and text. simgpu does not compute the sizes that the gradients
of an Embedding have, nor those of a transformer without XLA.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

assert tf.config.list_physical_devices("GPU"), "TensorFlow found no GPU"
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)


def train(name, model, x, classes, by_xla):
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", jit_compile=by_xla)
    data = tf.data.Dataset.from_tensor_slices((x, rng.integers(0, classes, len(x))))
    data = data.shuffle(16, seed=1).batch(4, drop_remainder=True).prefetch(2)
    model.fit(data, epochs=2, verbose=0)
    loss = np.float32(model.evaluate(data, verbose=0))
    answer = np.float32(model.predict(x, batch_size=4, verbose=0))
    print(name, "loss", loss.view("int32"), "answer", answer.view("int32").sum(dtype="int64"))


layers = keras.layers
train(
    "convolutions",
    keras.Sequential(
        [
            layers.Input((32, 32, 3), batch_size=4),
            layers.Conv2D(64, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(512, 3, strides=2, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(512, 3, strides=2, use_bias=False),
            layers.MaxPooling2D(),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax"),
        ]
    ),
    rng.standard_normal((8, 32, 32, 3)).astype("float32"),
    10,
    False,
)
# Without training, TensorFlow makes one operation of a convolution, its bias and its activation.
fused = keras.Sequential([layers.Conv2D(64, 3, activation="relu") for _ in range(3)])
pictures = tf.constant(rng.standard_normal((4, 32, 32, 16)).astype("float32"))
found = tf.function(lambda x: fused(x, training=False), jit_compile=False)(pictures).numpy()
print("fused", found.view("int32").sum(dtype="int64"))
words = keras.Input((24, 64), batch_size=4)
state = layers.Dense(384)(words)
for _ in range(2):
    state = layers.LayerNormalization()(state + layers.MultiHeadAttention(6, 64)(state, state))
    state = layers.LayerNormalization()(
        state + layers.Dense(384)(layers.Dense(1536, activation="gelu")(state))
    )
answer = layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(state))
train(
    "transformer",
    keras.Model(words, answer),
    rng.standard_normal((8, 24, 64)).astype("float32"),
    4,
    True,
)
