"""How large is a language model, before there is a machine that holds it: counted on meta, without weights.

python examples/llm_on_meta.py
"""

import torch
from torch import nn

import flopsight

WIDTH, LAYERS, HEADS, VOCABULARY, TOKENS = 4096, 32, 32, 32_000, 2048


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True, norm_first=True, bias=False)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.TransformerEncoder(block, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.blocks(self.embedding(tokens), mask=mask, is_causal=True))


def main():
    with torch.device("meta"):
        model = LanguageModel().bfloat16()
        tokens = torch.zeros(1, TOKENS, dtype=torch.int64)
    step = flopsight.count(model, (tokens,), train=True, optimizer="adamw")
    print(step.render("tree", depth=2))
    print(f"{step.params / 1e9:.2f} G parameters, {step.peak_bytes / 2**30:.0f} GiB at the peak of a training step:")
    for kind, size in step.at_peak.items():
        print(f"  {kind}: {size / 2**30:.1f} GiB")
    print(f"least time of the step on an H100: {step.limit('h100-sxm'):.3f} s, bound by {step.bound('h100-sxm')}")
    return step


if __name__ == "__main__":
    main()
