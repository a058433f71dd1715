"""A loop of one's own in TensorFlow: tf.function, GradientTape, tf.data, and mixed precision.

Stands for: training loops that are written by hand, with and without XLA.
"""

import tensorflow as tf

assert tf.config.list_physical_devices("GPU"), "TensorFlow found no GPU"
tf.random.set_seed(0)
draw = tf.random.Generator.from_seed(1)
weights = [tf.Variable(draw.normal((1024, 1024)) / 30) for _ in range(10)]
data = (
    tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal((24, 1024), (1, 2)))
    .batch(8)
    .prefetch(1)
)


def loss_of(x):
    for weight in weights:
        x = tf.nn.gelu(tf.matmul(x, weight))
    return tf.reduce_mean(x**2)


def step(x):
    with tf.GradientTape() as tape:
        loss = loss_of(x)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss


def bits(tensor):
    return tf.bitcast(tensor, tf.int32).numpy().sum(dtype="int64")


for name, function in (
    ("eager", step),
    ("graph", tf.function(step)),
    ("XLA", tf.function(step, jit_compile=True)),
):
    for x in data:
        loss = function(x)
    print(name, "loss", bits(loss), "weights", [bits(weight) for weight in weights[::3]])
tf.keras.mixed_precision.set_global_policy("mixed_float16")
model = tf.keras.Sequential(
    [tf.keras.layers.Input((1024,))]
    + [tf.keras.layers.Dense(1024, activation="relu") for _ in range(4)]
)
optimizer = tf.keras.optimizers.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
for x in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.cast(model(x, training=True), tf.float32) ** 2)
        scaled = optimizer.scale_loss(loss)
    optimizer.apply_gradients(
        zip(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
    )
print(
    "mixed_float16 loss",
    bits(loss),
    "weights",
    [bits(weight.value) for weight in model.trainable_variables[::3]],
)
