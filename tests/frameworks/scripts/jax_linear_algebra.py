"""Factors of covariances one by one, batches of small systems, and Fourier transforms, in JAX.

Stands for: Gaussian processes, Kalman filters and spectral solvers of differential equations:
cuSOLVER, batched cuBLAS and cuFFT.
"""

import jax
import jax.numpy as jnp

assert jax.devices()[0].platform == "gpu", jax.devices()
identity = jnp.eye(1024)
matrices = [jax.random.normal(jax.random.PRNGKey(i), (1024, 1024)) for i in range(12)]
systems = jax.random.normal(jax.random.PRNGKey(99), (256, 32, 32))
field = jnp.ones((256, 256, 16))


@jax.jit
def posterior(matrix, observed):
    covariance = matrix @ matrix.T + identity
    factor = jnp.linalg.cholesky(covariance)
    half = jax.scipy.linalg.solve_triangular(factor, observed, lower=True)
    return jnp.linalg.solve(matrix, half)


@jax.jit
def spectral_step(values):
    frequencies = jnp.fft.rfftn(values)
    return jnp.fft.irfftn(frequencies * 0.5, values.shape)


@jax.jit
def factors(matrix):
    values, vectors = jnp.linalg.eigh(matrix + matrix.T)
    q, r = jnp.linalg.qr(matrix)
    u, s, v = jnp.linalg.svd(matrix[:, :64], full_matrices=False)
    return [values.sum(), vectors.sum(), q.sum(), r.sum(), u.sum(), s.sum(), v.sum()]


state = identity
for _ in range(3):
    for matrix in matrices:
        state = posterior(matrix, state)
    field = spectral_step(field)
small = jnp.linalg.solve(systems, systems[:, :, :4])
results = jnp.stack([state.sum(), field.sum(), small.sum(), *factors(matrices[0])])
print("state, field, systems, factors:", jax.device_get(results).view("int32").tolist())
