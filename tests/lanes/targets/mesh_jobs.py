"""Real jobs of two and four ranks, divided by transformers' own functions, for meshes that are also tried without the job."""

import torch
from lanes import torchvision_ops
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.distributed.expert_parallel import apply_expert_parallelism
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

import flopsight

torchvision_ops.define()
SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 64, "pad_token_id": 0, "use_cache": False,
}  # fmt: skip
EVERY_EXPERT = {"num_experts_per_tok": 4, "moe_intermediate_size": 24}
"""Every token chooses every expert, so that no choice is left to the values."""
MODELS = {
    "mixtral": {"num_local_experts": 4} | EVERY_EXPERT,
    "qwen3_moe": {"num_experts": 4, "head_dim": 8} | EVERY_EXPERT,
    "deepseek_v3": {
        "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 16,
        "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4,
    } | EVERY_EXPERT,
    "phi3": {},
    "qwen3": {"head_dim": 8},
}  # fmt: skip
MESHES = {
    2: {
        "mixtral ep": {"ep": 2},
        "qwen3_moe ep": {"ep": 2},
        "deepseek_v3 ep": {"ep": 2},
        "mixtral tp": {"tp": 2},
        "phi3 tp": {"tp": 2},
        "qwen3 tp": {"tp": 2},
    },
    4: {"mixtral fsdp ep": {"fsdp": 2, "ep": 2}},
}
"""Meshes by the number of ranks and the name of the job, which begins with the model's."""


def model_of(name):
    kind = name.split()[0]
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES | MODELS[kind])).train()


def inputs():
    tokens = torch.arange(32).remainder(60).view(2, 16) + 1
    return {"input_ids": tokens, "labels": tokens}


def divided(name, mesh):
    """The model on its mesh, as a training script writes it."""
    ranks = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    model = model_of(name)
    if "tp" in mesh:
        plan = {layer: style for layer, style in model.tp_plan.items() if ".layers." in layer}
        return apply_tensor_parallelism(model, ranks["tp"], plan)
    model = apply_expert_parallelism(model, ranks["ep"], None, model.ep_plan)
    experts = [layer.mlp.experts for layer in model.model.layers if hasattr(layer.mlp, "experts")]
    if "fsdp" not in mesh:
        own = {id(parameter) for module in experts for parameter in module.parameters()}
        names = [path for path, parameter in model.named_parameters() if id(parameter) in own]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
        return DistributedDataParallel(model, device_mesh=ranks["ep"])
    everyone = ranks["fsdp", "ep"]._flatten("fsdp_ep")
    for module in experts:
        fully_shard(module, mesh=ranks["fsdp"])
        module.set_gradient_divide_factor(4.0)
        module.set_force_sum_reduction_for_comms(True)
    for layer in model.model.layers:
        fully_shard(layer, mesh=everyone)
    return fully_shard(model, mesh=everyone)


def counted(name, mesh):
    """The second step of a job: what libraries set up in the first is over."""
    model = divided(name, mesh)
    return [flopsight.count(model, kwargs=inputs(), train=True) for _ in range(2)][-1]


def _cases():
    size = distributed.get_world_size() if distributed.is_initialized() else 2
    return {name: (lambda name=name, mesh=mesh: counted(name, mesh)) for name, mesh in MESHES[size].items()}


CASES = _cases()
