"""Trains a small model with real DeepSpeed engines, one after the other, and writes down what happened.

python worker.py FOLDER '[{"stage": 3, "batches": 2, "profiler": "ours"}, ...]'
"""

import gc
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[2]))

import deepspeed  # noqa: E402
import torch  # noqa: E402
from lanes.deepspeed.net import BATCH, Net, batch  # noqa: E402

import flopsight.integrations.deepspeed as integration  # noqa: E402

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo, where a compiler would build its substitute
STEPS = 4


def config(case):
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": case.get("batches", 1),
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": case["stage"], "stage3_param_persistence_threshold": case.get("threshold", 0)},
    }
    if case["profiler"] == "monitor":
        settings["flops_profiler"] = {"enabled": True, "monitor": True, "every": 2}
    elif case["profiler"] != "none":
        enabled = case["profiler"] != "off"
        settings["flops_profiler"] = {"enabled": enabled, "profile_step": 1, "top_modules": 2}
    if "phases" in case:
        settings["flops_profiler"]["phases"] = case["phases"]
    return settings | case.get("config", {})


def train(engine, case):
    losses = []
    for step in range(STEPS * case.get("batches", 1)):
        if case.get("evaluate"):
            engine.eval()
            with torch.no_grad():
                engine(*batch(1000 + step))
            engine.train()
        inputs = batch(step)
        if case.get("config", {}).get("bf16"):
            inputs = (inputs[0].bfloat16(), inputs[1])
        loss = engine(*inputs)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def hooks(engine):
    """How many hooks there are on the engine, and on the modules that it trains."""
    kinds = ("_forward_pre_hooks", "_forward_hooks")
    return [
        sum(len(getattr(module, kind)) for module in modules for kind in kinds)
        for modules in ([engine], engine.module.modules())
    ]


def run(case):
    integration.install() if case["profiler"] in ("ours", "off", "monitor") else integration.uninstall()
    model = Net()
    if case.get("user_hook"):
        model.down.register_forward_hook(lambda *_: None)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config(case))
    call = torch.nn.Module.__call__
    printed = io.StringIO()
    with redirect_stdout(printed):
        losses = train(engine, case)
    profiler = getattr(engine, "flops_profiler", None)
    if case["profiler"] == "monitor":
        profiler.end()
    facts = {
        "text": printed.getvalue(),
        "losses": losses,
        "hooks": hooks(engine),
        "profiler": f"{type(profiler).__module__}.{type(profiler).__name__}",
        "patched": torch.nn.Module.__call__ is not call,
        "kept_parameters": sum(p.ds_tensor.numel() if case["stage"] == 3 else p.numel() for p in model.parameters()),
    }
    if case["profiler"] == "monitor":
        facts["intervals"] = [(one.steps, one.model_flops) for one in profiler.run.intervals]
    if case["profiler"] == "ours" and engine.global_rank == 0:
        profiler.profile.save(Path(sys.argv[1]) / f"{case['name']}.json")
    return facts


def main():
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo", verbose=False)
    facts = {case["name"]: run(case) for case in json.loads(sys.argv[2])}
    rank = torch.distributed.get_rank()
    (Path(sys.argv[1]) / f"facts-{rank}.json").write_text(json.dumps(facts))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


main()
gc.collect()  # ends the threads of gloo: one that drops its last work while Python ends aborts the process
