"""Every private name of torch that `internals` uses, and the figures that need it; read without torch."""

from __future__ import annotations

COUNTS = "every count"
PLACES = "which module and phase an op belongs to"
BACKWARD = "backward and recompute, by module"
MEMORY = "activation bytes and peak memory"
TIMES = "times of modules"
RESTORE = "the model and its graphs left as they were"
META = "counts on meta"
COMPILED = "counts of compiled models"
PLANS = "memory of compiled steps in a plan"

PRIVATE_NAMES = {
    "torch._dynamo.backends.common.aot_autograd": PLANS,
    "torch._functorch.partitioners.get_default_op_list": PLANS,
    "torch._functorch.partitioners.min_cut_rematerialization_partition": PLANS,
    "torch._inductor.decomposition.select_decomp_table": PLANS,
    "torch._subclasses.fake_tensor.FakeTensorMode": META,
    "torch.utils._pytree.tree_map_only": PLANS,
    "torch.utils._python_dispatch.TorchDispatchMode": COUNTS,
    "torch.utils._python_dispatch._disable_current_modes": COUNTS,
    "torch.utils._python_dispatch._get_current_dispatch_mode": COUNTS,
    "torch.utils._python_dispatch._pop_mode": COUNTS,
    "torch.utils._python_dispatch._push_mode": COUNTS,
    "torch.utils._python_dispatch.is_traceable_wrapper_subclass": COUNTS,
    "torch._C._len_torch_dispatch_stack": COUNTS,
    "torch._C._get_dispatch_stack_at": COUNTS,
    "torch._C._get_dispatch_mode": COUNTS,
    "torch._C._TorchDispatchModeKey": COUNTS,
    "torch._C._len_torch_function_stack": META,
    "torch._C._functorch.peek_interpreter_stack": COUNTS,
    "torch.nn.modules.batchnorm._NormBase": COUNTS,
    "torch._C.DisableTorchFunction": COUNTS,
    "torch._C._dispatch_has_kernel_for_dispatch_key": COUNTS,
    "torch._C.DispatchKey": COUNTS,
    "torch._C.DispatchKeySet": COUNTS,
    "torch._C._ExcludeDispatchKeyGuard": COUNTS,
    "torch._library.custom_ops.OPDEFS": COUNTS,
    "torch._ops.HigherOrderOperator": COUNTS,
    "torch._C._functorch.is_functorch_wrapped_tensor": MEMORY,
    "torch._C._functorch.get_unwrapped": COUNTS,
    "torch.autograd.forward_ad._current_level": COUNTS,
    "torch.nn.utils.stateless._reparametrize_module": COUNTS,
    "torch._C._current_graph_task_id": PLACES,
    "torch._C._autograd._get_sequence_nr": BACKWARD,
    "torch._C._current_autograd_node": BACKWARD,
    "torch._C._autograd._saved_tensors_hooks_is_enabled": MEMORY,
    "torch._C._autograd._top_saved_tensors_default_hooks": MEMORY,
    "torch._C._autograd._pop_saved_tensors_default_hooks": MEMORY,
    "torch._C._autograd._push_saved_tensors_default_hooks": MEMORY,
    "torch._C._autograd._unsafe_set_version_counter": RESTORE,
    "torch._foreach_copy_": RESTORE,
    "torch._neg_view": META,
    "torch._conj": META,
    "torch._C._set_neg": META,
    "torch._C._set_conj": META,
    "torch._fused_sdp_choice": META,
    "torch._prims_common.suggest_memory_format": META,
    "torch.utils._pytree.tree_map": COUNTS,
    "torch._C._get_mkldnn_enabled": META,
    "torch._C._select_conv_backend": META,
    "torch._C._ConvBackend": META,
    "torch.utils.checkpoint._CheckpointFrame": META,
    "torch._C._AutoDispatchBelowAutograd": META,
    "torch._C._dispatch_get_registrations_for_dispatch_key": META,
    "torch._C._dispatch_tls_set_dispatch_key_excluded": META,
    "torch._C._dispatch_tls_set_dispatch_key_included": META,
    "torch._C._autograd._profiler_enabled": TIMES,
    "torch.autograd.profiler._is_profiler_enabled": TIMES,
    "torch._C._autograd.DeviceType": TIMES,
    "torch.cuda._sleep": TIMES,
    "torch._subclasses.fake_tensor.FakeTensor": COUNTS,
    "torch.compiler.set_stance": COMPILED,
    "torch._C._get_tracing_state": COUNTS,
    "torch._C._set_tracing_state": COUNTS,
}

SINCE = {"torch._C._autograd._top_saved_tensors_default_hooks": (2, 8)}
"""Names that older releases do not have, and that flopsight does without there."""
