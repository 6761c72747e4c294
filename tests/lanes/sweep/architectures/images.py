"""Segmentation, classification, matching of images, and pairs of image and text."""

import torch

from .entry import built, image, made

SEGMENT = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 2}


def _segment(name, size=64, **options):
    return made(f"segmentation_models_pytorch:{name}", image(size), **{**SEGMENT, **options})


def _clip(name, vision, text=None):
    def make(batch):
        from open_clip.model import CLIP

        words = {"context_length": 16, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1, **(text or {})}
        model = CLIP(embed_dim=16, vision_cfg={"image_size": 32, **vision}, text_cfg=words)
        return model, (torch.randn(batch, 3, 32, 32), torch.randint(0, 64, (batch, 16)))

    return built("open_clip", name)(make)


def _efficientnet(name):
    def make(batch):
        from efficientnet_pytorch import EfficientNet

        return EfficientNet.from_name(name, num_classes=10, image_size=64), (torch.randn(batch, 3, 64, 64),)

    return built("efficientnet_pytorch", name)(make)


def _pretrained(name, size=96):
    return made(f"pretrainedmodels:{name}", image(size), num_classes=1000, pretrained=None)


ENTRIES = [
    _segment("Unet"),
    _segment("Unet", called="Unet_attention", decoder_attention_type="scse"),
    _segment("UnetPlusPlus"),
    _segment("MAnet"),
    _segment("Linknet"),
    _segment("FPN"),
    _segment("PSPNet"),
    _segment("PAN", 128),
    _segment("DeepLabV3"),
    _segment("DeepLabV3Plus"),
    _segment("UPerNet"),
    _segment("Segformer"),
    _segment("Unet", called="Unet_mobilenet", encoder_name="mobilenet_v2"),
    _segment("FPN", called="FPN_mix_transformer", encoder_name="mit_b0"),
    _segment("Unet", called="Unet_classified", aux_params={"classes": 3, "pooling": "avg", "dropout": 0.2}),
    _clip("vit", {"patch_size": 8, "width": 32, "layers": 1, "head_width": 16}),
    _clip("resnet", {"layers": (1, 1, 1, 1), "width": 8, "head_width": 8}),
    _clip("vit_average_pool", {"patch_size": 8, "width": 32, "layers": 1, "head_width": 16, "pool_type": "avg"}),
    _clip("vit_attentional_pool", {"patch_size": 8, "width": 32, "layers": 1, "head_width": 16,
                                   "attentional_pool": True, "attn_pooler_heads": 2}),
    _efficientnet("efficientnet-b0"),
    _efficientnet("efficientnet-b1"),
    made("kornia.feature:HardNet", image(32, channels=1), pretrained=False),
    made("kornia.feature:HyNet", image(32, channels=1), pretrained=False),
    made("kornia.feature:SOSNet", image(32, channels=1), pretrained=False),
    made("kornia.feature:TFeat", image(32, channels=1), pretrained=False),
    made("kornia.feature:DISK", image(32)),
    made("kornia.models.vit:VisionTransformer", image(32), image_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2),
    made("kornia.models.tiny_vit:TinyViT", image(64), img_size=64, num_classes=10, embed_dims=[16, 16, 32, 32],
         depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_sizes=[4, 4, 4, 4]),
    made("kornia.models.dexined:DexiNed", image(64), pretrained=False),
    _pretrained("xception"),
    _pretrained("nasnetamobile", 224),
    _pretrained("bninception", 224),
]  # fmt: skip
