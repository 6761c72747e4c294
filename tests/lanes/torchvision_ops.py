"""torchvision beside a CPU build of torch: its compiled ops are not there, and importing it would fail on the first."""

import torch

MISSING = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library = torch.library.Library("torchvision", "FRAGMENT")


def define() -> None:
    """Declare what torchvision looks for; no model here calls it. Beside a torch with CUDA it brings its own."""
    for schema in MISSING:
        if torch.version.cuda is None and not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            _library.define(schema)
