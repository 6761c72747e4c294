"""What a user may write by mistake: every line that says so is refused."""

import torch

import flopsight

model = torch.nn.Linear(8, 2)
result = flopsight.profile(model, input_shape=(4, 8))

flopsight.profile(1, wramup=3)  # wrong
flopsight.profile(model, wramup=3)  # wrong
flopsight.count(model, trian=True)  # wrong
flopsight.prfile(model)  # wrong
flopsight.load(3)  # wrong
a: str = result.flops  # wrong
b: str = result.forward.macs  # wrong
c: str = result["layers.0"].params  # wrong
d: int = result.root.total  # wrong
e: str = result.root.activation_bytes  # wrong
f = result.flosp  # wrong
g = result.root.chldren  # wrong
h: float = result.latency  # wrong
i: int = flopsight.load("p.json")  # wrong
flopsight.FlopsProfiler(model).start_profil()  # wrong
flopsight.Cost(flop=3)  # wrong
