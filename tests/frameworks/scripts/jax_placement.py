"""Weights with shardings on one device, and weights that wait in pinned_host for their layer.

Stands for: scripts for many devices that are tried on one, and offloading by JAX itself.
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

device = jax.devices()[0]
assert device.platform == "gpu", jax.devices()
mesh = Mesh([device], ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
x = jax.device_put(jax.random.normal(jax.random.PRNGKey(1), (16, 1024)), split)
weights = [
    jax.device_put(jax.random.normal(key, (1024, 1024)) / 30, whole)
    for key in jax.random.split(jax.random.PRNGKey(0), 12)
]


@jax.jit
def layer(value, matrix):
    return jax.lax.with_sharding_constraint(jnp.tanh(value @ matrix), split)


def mean(value):
    return jax.lax.pmean(jnp.sum(value**2), "data")


state = x
for matrix in weights:
    state = layer(state, matrix)
shared = jax.jit(
    jax.shard_map(mean, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec())
)
results = [jnp.sum(state), shared(state)]
on_host = SingleDeviceSharding(device, memory_kind="pinned_host")
waiting = [jax.device_put(matrix, on_host) for matrix in weights]
del weights
state = x
for matrix in waiting:
    state = layer(state, jax.device_put(matrix, whole))
results.append(jnp.sum(state))
results += [jnp.sum(jnp.abs(jax.device_put(each, whole))) for each in waiting[:2]]
bits = jax.device_get(jnp.stack([jax.device_put(each, whole) for each in results])).view("int32")
print("sharded, shared, from pinned_host, back:", bits.tolist())
