"""Convolutional and transformer vision models of torchvision, at small resolutions."""

from functools import partial

import torch
import torchvision

from architectures.entry import Architecture, Example

CLASSIFIERS = {
    "alexnet": 64, "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 32,
    "mobilenet_v2": 64, "mobilenet_v3_small": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64,
    "convnext_tiny": 64, "shufflenet_v2_x1_0": 64, "squeezenet1_1": 64, "densenet121": 64, "mnasnet0_5": 64,
    "regnet_y_400mf": 64, "googlenet": 96, "swin_t": 64, "swin_v2_t": 64, "maxvit_t": 224,
}  # fmt: skip
"""Input sizes."""
OPTIONS = {"googlenet": {"aux_logits": False, "init_weights": False}}
SEGMENTERS = ("fcn_resnet50", "lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large")


def classifier(name, size):
    model = torchvision.models.get_model(name, weights=None, **OPTIONS.get(name, {}))
    return Example(model, (torch.randn(2, 3, size, size),))


def segmenter(name):
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    return Example(model, (torch.randn(2, 3, 64, 64),))


def vit():
    sizes = {"image_size": 64, "patch_size": 16, "num_layers": 3, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768}
    return Example(torchvision.models.VisionTransformer(**sizes), (torch.randn(2, 3, 64, 64),))


ARCHITECTURES = [
    *(Architecture(name, "torchvision", partial(classifier, name, size)) for name, size in CLASSIFIERS.items()),
    Architecture("vision_transformer", "torchvision", vit),
    *(Architecture(name, "torchvision", partial(segmenter, name)) for name in SEGMENTERS),
]
