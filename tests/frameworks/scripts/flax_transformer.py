"""A transformer of flax that is trained, and then writes words with a cache of keys and values.

Stands for: language models in JAX.
"""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

WIDTH, WORDS = 512, 1024


class Block(nnx.Module):
    def __init__(self, rngs):
        self.before, self.between = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(8, WIDTH, rngs=rngs, decode=False)
        self.wide, self.narrow = (
            nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs),
            nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs),
        )

    def __call__(self, x, mask=None, decode=False):
        x = x + self.attention(self.before(x), mask=mask, decode=decode)
        return x + self.narrow(nnx.gelu(self.wide(self.between(x))))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(4)])

    def __call__(self, words, mask=None, decode=False):
        x = self.words(words)
        for block in self.blocks:
            x = block(x, mask, decode)
        return self.words.attend(x)


assert jax.devices()[0].platform == "gpu", jax.devices()
model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)


@nnx.jit
def step(model, optimizer, words):
    def loss(model):
        logits = model(words, nnx.make_causal_mask(words))
        return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], words[:, 1:]).mean()

    error, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return error


@nnx.jit
def write(model, word):
    return model(word, decode=True)


words = jax.random.randint(jax.random.PRNGKey(1), (4, 24), 0, WORDS)
losses = [step(model, optimizer, words) for _ in range(2)]
for block in model.blocks:
    block.attention.init_cache((1, 8, WIDTH))
word = words[:1, :1]
for _ in range(4):
    logits = write(model, word)
    word = jnp.argmax(logits[:, -1:], -1) % WORDS
results = jnp.stack([*losses, logits.sum()]).view(jnp.int32)
print("losses and logits", jax.device_get(results).tolist())
