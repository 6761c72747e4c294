"""A variety of timm's image models, each at a small size that it takes."""

from functools import partial

import timm
import torch

from architectures.entry import Architecture, Example

SIZES = {
    "beit_base_patch16_224": 224, "cait_xxs24_224": 224, "coatnet_0_rw_224": 224, "convmixer_768_32": 32,
    "crossvit_tiny_240": 240, "davit_tiny": 64, "deit_tiny_distilled_patch16_224": 224, "dla34": 64, "dpn48b": 64,
    "edgenext_xx_small": 64, "efficientformer_l1": 224, "eva02_tiny_patch14_224": 224, "fastvit_t8": 64,
    "focalnet_tiny_srf": 64, "ghostnet_100": 64, "gmlp_s16_224": 224, "hiera_tiny_224": 224, "hrnet_w18_small": 64,
    "levit_128s": 224, "mambaout_femto": 64, "mixer_s32_224": 224, "mobilevit_xxs": 64, "nfnet_f0": 64,
    "poolformer_s12": 64, "pvt_v2_b0": 64, "repvgg_a0": 64, "res2net50_14w_8s": 64, "starnet_s1": 64,
    "tiny_vit_5m_224": 224, "volo_d1_224": 224, "xcit_nano_12_p16_224": 64,
}  # fmt: skip
"""Input sizes."""


def image_model(name, size):
    model = timm.create_model(name, pretrained=False, num_classes=10)
    return Example(model, (torch.randn(2, 3, size, size),))


ARCHITECTURES = [Architecture(name, "timm", partial(image_model, name, size)) for name, size in SIZES.items()]
