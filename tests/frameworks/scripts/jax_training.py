"""An MLP with donated weights, and layers under lax.scan, trained with optax in JAX.

Stands for: training under jit, where one launch may name the weights of all layers.
"""

import jax
import jax.numpy as jnp
import optax

assert jax.devices()[0].platform == "gpu", jax.devices()
keys = jax.random.split(jax.random.PRNGKey(0), 6)
stacked = jnp.stack([jax.random.normal(key, (1024, 1024)) / 30 for key in keys])
apart = [{"weight": matrix, "bias": jnp.zeros(1024)} for matrix in stacked]
x = jax.random.normal(jax.random.PRNGKey(1), (16, 1024))


def one_by_one(layers, value):
    for layer in layers:
        value = jax.nn.gelu(value @ layer["weight"] + layer["bias"])
    return jnp.mean(value**2)


def scanned(matrices, value):
    def layer(state, matrix):
        return jax.nn.gelu(state @ matrix), None

    return jnp.mean(jax.lax.scan(jax.checkpoint(layer), value, matrices)[0] ** 2)


def train(loss, weights, optimizer):
    def step(weights, state, value):
        error, gradients = jax.value_and_grad(loss)(weights, value)
        changes, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, changes), state, error

    step, state = jax.jit(step, donate_argnums=(0, 1)), optimizer.init(weights)
    for number in range(3):
        weights, state, error = step(weights, state, x + number)
    leaves = [jnp.sum(leaf.view(jnp.int32)) for leaf in jax.tree.leaves(weights)]
    return jnp.stack([error.view(jnp.int32), *leaves])


first = train(one_by_one, jax.tree.map(jnp.copy, apart), optax.sgd(0.1, momentum=0.9))
second = train(scanned, stacked, optax.adamw(1e-3))
print("loss and weights of both:", jax.device_get(jnp.concatenate([first, second])).tolist())
