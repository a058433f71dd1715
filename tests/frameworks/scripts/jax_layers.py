"""Layers applied one by one, and a gradient step over all of them with donated weights, in JAX.

Stands for: inference that is dispatched by layer, and training of a network under jit.
"""

import jax
import jax.numpy as jnp

assert jax.devices()[0].platform == "gpu", jax.devices()
weights = [jax.random.normal(jax.random.PRNGKey(i), (1024, 1024)) for i in range(12)]
x = jnp.ones((64, 1024))


@jax.jit
def layer(matrix, value):
    return jnp.tanh(value @ matrix)


def loss(matrices, value):
    for matrix in matrices:
        value = layer(matrix, value)
    return (value ** 2).sum()


def step(matrices, value):
    gradients = jax.grad(loss)(matrices, value)
    return [matrix - 0.01 * gradient for matrix, gradient in zip(matrices, gradients)]


for _ in range(6):
    for weight in weights:
        x = layer(weight, x)
layers = x
train = jax.jit(step, donate_argnums=0)
for _ in range(3):
    weights = train(weights, x)
images, filters = jnp.ones((2, 16, 16, 8)), jnp.ones((3, 3, 8, 16))
convolved = jax.lax.conv_general_dilated(images, filters, (1, 1), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
results = jnp.stack([layers.sum(), loss(weights, layers), convolved.sum()])
print("layers, loss, convolution:", jax.device_get(results).view("int32").tolist())
