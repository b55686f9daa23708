"""A GPT of two layers in torch, on the device neuron:0, whose projections, attention and MLP are
kernels of nki-library (github.com/aws-neuron/nki-library).

It needs torch (Debian: python3-torch, libtorch-dev, g++), and a revision of the library whose files
these kernels can be imported from, such as 1edc7bb."""
import math
import sys

import torch

import soma

if len(sys.argv) < 2:
    sys.exit("usage: soma-nki gpt_torch.py LIBRARY/src/nkilib_src [PAGE.html]")
sys.path.insert(0, sys.argv[1])
import nki
from nkilib.core.attention.attention_cte import attention_cte
from nkilib.core.mlp.mlp import mlp
from nkilib.core.output_projection.output_projection_cte.output_projection_cte import \
    output_projection_cte
from nkilib.core.qkv.qkv import qkv
from nkilib.core.utils.common_types import NormType

LAYERS, TIME, HEADS, WIDE, WORDS = 2, 512, 2, 128, 256
MODEL, HIDDEN = HEADS * WIDE, 4 * HEADS * WIDE
attention_cte, mlp, output_projection_cte, qkv = map(
    nki.jit, (attention_cte, mlp, output_projection_cte, qkv))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()

        def weight(*shape):
            return torch.nn.Parameter(torch.randn(*shape) / math.sqrt(shape[0]))
        self.norm1, self.norm2 = (torch.nn.Parameter(torch.ones(1, MODEL)) for _ in range(2))
        self.qkv, self.out = weight(MODEL, 3 * MODEL), weight(MODEL, MODEL)
        self.gate, self.up, self.down = (weight(MODEL, HIDDEN), weight(MODEL, HIDDEN),
                                         weight(HIDDEN, MODEL))

    def forward(self, x):
        """The kernels of nki-library."""
        made = qkv(x, self.qkv, fused_norm_type=NormType.RMS_NORM, gamma_norm_weights=self.norm1,
                   d_head=WIDE, num_q_heads=HEADS, num_kv_heads=HEADS)
        q, k, v = made.view(TIME, 3, HEADS, WIDE).permute(1, 2, 0, 3)  # (HEADS, TIME, WIDE) each
        mixed = attention_cte(q, k, v, scale=1 / math.sqrt(WIDE), tp_k=True, tp_out=True)
        x = x + output_projection_cte(mixed.view(1, HEADS, WIDE, TIME), self.out)
        return x + mlp(x, self.gate, self.up, self.down,
                       normalization_weights_tensor=self.norm2,
                       normalization_type=NormType.RMS_NORM, force_cte_mode=True)[0]

    def reference(self, x):
        """The same in torch."""
        def norm(x, gain):
            return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * gain
        q, k, v = (norm(x, self.norm1) @ self.qkv).view(TIME, 3, HEADS, WIDE).permute(1, 2, 0, 3)
        scores = (q @ k.transpose(1, 2)) / math.sqrt(WIDE)
        scores = scores.masked_fill(~torch.ones(TIME, TIME, dtype=torch.bool).tril(), -math.inf)
        mixed = (scores.softmax(-1) @ v).permute(1, 0, 2).reshape(1, TIME, MODEL)
        x = x + mixed @ self.out
        y = norm(x, self.norm2)
        return x + (torch.nn.functional.silu(y @ self.gate) * (y @ self.up)) @ self.down


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, MODEL)
        self.places = torch.nn.Parameter(torch.randn(TIME, MODEL) / 10)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, text, kernels=True):
        x = (self.words(text) + self.places)[None]
        for block in self.blocks:
            x = block(x) if kernels else block.reference(x)
        return x[0] @ self.words.weight.t()


torch.manual_seed(1)
model = Gpt().requires_grad_(False)
text = torch.randint(WORDS, (TIME,))
want = model(text, kernels=False)

soma.torch.enable()
model, text = model.bfloat16().to("neuron:0"), text.to("neuron:0")
with soma.session() as session:
    got = model(text)
print("on", got.device, "in", len(session.calls), "kernels of", len(session.by_kernel()), "kinds")
error = (got.cpu().float() - want).abs().max() / want.abs().max()
print("right: %s, largest error %.1f %% of the largest value" % (bool(error < 0.03), 100 * error))
print(session.timeline(100))
print("on the CPU:", soma.torch.fallbacks)
if len(sys.argv) > 2:
    session.page(sys.argv[2], title="A GPT of two layers")
    with open(sys.argv[2].removesuffix(".html") + ".svg", "w") as f:
        f.write(session.svg())
