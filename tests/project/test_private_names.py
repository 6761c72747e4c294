"""Private names of torch stand in one package, `capture/hooks/internals`, and the doctor knows every one of them."""

import ast
from pathlib import Path

import flopsight
from flopsight.capture.hooks.private_names import PRIVATE_NAMES

ROOT = Path(flopsight.__file__).parent
HOME = ROOT / "capture" / "hooks" / "internals"

OF_PYTHON = {"_getframe", "_replace", "_asdict", "_fields", "_exit"}
"""Underscored names of Python's own library that are documented."""
OF_MODULES = {"_parameters", "_buffers", "_modules"}
"""What a module registers, as subclasses of nn.Module may read it."""
ELSEWHERE = {
    "capture/hooks/parallel.py": {"_resolve_process_group", "_get_ddp_logging_data"},
    "distributed/cutting.py": {
        "_get_fsdp_state",
        "_lazy_init",
        "_flatten",
        "_set_params_and_buffers_to_ignore_for_model",
    },
    "distributed/dryrun.py": {
        "torch.testing._internal.distributed.fake_pg.FakeStore",
        "_C",
        "_distributed_c10d",
        "_create_work_from_future",
        "_op_dispatcher",
    },
    "distributed/gather.py": {"_get_default_store"},
    "distributed/recomputing.py": {"torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper"},
    "distributed/shards.py": {"_param_infos"},
    "distributed/stages.py": {"_initialize_stage", "_get_backend", "_register_backend"},
    "distributed/topology.py": {"_get_fsdp_state"},
    "hardware/sampling.py": {"_sleep"},
    "integrations/deepspeed.py": {"_param_dict"},
    "targets/hugging_face.py": {"_from_config", "_model_mapping"},
}
"""Private names in other files: of torch.distributed and on floors that may not import capture, and of other packages."""


def private(name):
    return name.startswith("_") and not name.startswith("__")


def ours(trees):
    """Every private name that the package itself defines: functions, classes, attributes, variables, modules."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Assign) and any("__slots__" in ast.dump(target) for target in node.targets):
                found |= {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return {name for name in found if private(str(name))}


def dotted(node):
    """`torch._C._autograd` as a text; None for what does not begin with a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def torch_names(tree):
    """What the imports of a file bind to torch and its parts: `{"nn": "torch.nn", "dist": "torch.distributed"}`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    found[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.partition(".")[0] == "torch":
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def of_torch(node, bound):
    """The full name of what begins with torch, `torch._C._autograd`; None for anything else."""
    text = dotted(node) or ""
    first, dot, rest = text.partition(".")
    return f"{bound[first]}{dot}{rest}" if first in bound else None


def is_op(node):
    """Names of ops, `aten._softmax`, are data."""
    text = dotted(node) or ""
    return text.startswith(("aten.", "torch.ops."))


def foreign(tree, defined):
    """Private names in a file: those of torch, whatever we call our own, and of anything else those that we do not define."""
    found = set()
    bound = torch_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.partition(".")[0] == "torch":
            inside = any(map(private, node.module.split(".")))
            found |= {f"{node.module}.{alias.name}" for alias in node.names if inside or private(alias.name)}
        elif isinstance(node, ast.Import):
            found |= {
                a.name for a in node.names if a.name.startswith("torch.") and any(map(private, a.name.split(".")))
            }
        elif isinstance(node, ast.Attribute) and private(node.attr) and not is_op(node):
            if of_torch(node, bound) is not None or node.attr not in defined:
                found.add(node.attr)
    return found - OF_PYTHON - OF_MODULES


def files():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def test_private_names_of_torch_stand_in_one_package():
    trees = files()
    defined = ours(trees.values())
    wrong = {}
    for path, tree in trees.items():
        name = str(path.relative_to(ROOT))
        left = foreign(tree, defined) - ELSEWHERE.get(name, set())
        if left and path.parent != HOME:
            wrong[name] = sorted(left)

    assert not wrong


def test_every_exception_is_still_one():
    trees = files()
    defined = ours(trees.values())

    for name, names in ELSEWHERE.items():
        assert names <= foreign(trees[ROOT / name], defined), name


def test_a_private_name_elsewhere_is_noticed():
    code = """
from torch._ops import OpOverload
from torch.utils import _pytree
import torch._dynamo
x = tensor._version
y = torch._C._autograd.anything
z = aten._softmax.default, self._mine
"""

    assert foreign(ast.parse(code), {"_mine"}) == {
        "torch._ops.OpOverload", "torch.utils._pytree", "torch._dynamo", "_version", "_C", "_autograd",
    }  # fmt: skip


def test_a_private_name_of_torch_is_noticed_also_where_we_have_one_like_it():
    code = """
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
a = torch._ops.HigherOrderOperator, dist._mine, nn.Module._theirs, Optimizer._cuda.anything
b = self._ops, self._mine, torch.ops.aten._mine
"""
    mine = {"_ops", "_mine", "_theirs", "_cuda"}

    assert foreign(ast.parse(code), mine) == {"_ops", "_mine", "_theirs", "_cuda"}
    assert foreign(ast.parse("b = self._ops, other._mine"), mine) == set()


def test_the_doctor_knows_every_private_name_of_torch():
    used = set()
    for node in (node for path in HOME.glob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.startswith("torch"):
            inside = any(map(private, node.module.split(".")))
            used |= {f"{node.module}.{alias.name}" for alias in node.names if inside or private(alias.name)}
        elif isinstance(node, ast.Attribute) and (text := dotted(node)) and text.startswith("torch."):
            if any(map(private, text.split("."))) and not is_op(node):
                used.add(text)
    whole = {name for name in used if not any(other.startswith(f"{name}.") for other in used)}

    assert {name for name in whole if not known(name)} == set()


MODULES = {"torch.utils._python_dispatch"}
"""Modules that are listed name by name."""


def known(name):
    """Listed, or a part of something that is: `torch._C.DispatchKey.Python`."""
    return name in PRIVATE_NAMES or any(name.startswith(f"{one}.") for one in PRIVATE_NAMES) or name in MODULES
