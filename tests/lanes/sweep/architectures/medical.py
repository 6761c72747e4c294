"""monai: networks for volumes and slides."""

import torch

from .entry import image, made, volume

PLAIN = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
GREY = image(32, channels=1)
GREY64 = image(64, channels=1)


def _net(name, inputs, /, *args, called="", **options):
    return made(f"monai.networks.nets:{name}", inputs, *args, called=called or name, **options)


ENTRIES = [
    _net("UNet", GREY, **PLAIN, channels=(4, 8, 16), strides=(2, 2), num_res_units=1),
    _net("UNet", volume(16), called="UNet3d", spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16),
         strides=(2, 2)),
    _net("BasicUNet", GREY, **PLAIN, features=(4, 4, 8, 8, 8, 4)),
    _net("BasicUNetPlusPlus", GREY, **PLAIN, features=(4, 4, 8, 8, 8, 4)),
    _net("AttentionUnet", GREY, **PLAIN, channels=(4, 8, 16), strides=(2, 2)),
    _net("DynUNet", GREY, **PLAIN, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2],
         filters=[4, 8, 8]),
    _net("SegResNet", GREY, spatial_dims=2, init_filters=8, in_channels=1, out_channels=2),
    _net("SegResNetVAE", GREY, input_image_size=(32, 32), spatial_dims=2, init_filters=8, in_channels=1,
         out_channels=2),
    _net("VNet", volume(32), spatial_dims=3, in_channels=1, out_channels=2),
    _net("HighResNet", GREY, **PLAIN),
    _net("RegUNet", GREY, spatial_dims=2, in_channels=1, num_channel_initial=4, depth=2, out_channels=2),
    _net("UNETR", volume(32), in_channels=1, out_channels=2, img_size=32, feature_size=8, hidden_size=48, mlp_dim=64,
         num_heads=4),
    _net("SwinUNETR", GREY64, in_channels=1, out_channels=2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1),
         num_heads=(1, 2, 2, 4)),
    _net("ViT", GREY, in_channels=1, img_size=32, patch_size=8, hidden_size=32, mlp_dim=64, num_layers=2, num_heads=2,
         classification=True, num_classes=4, spatial_dims=2),
    _net("ViTAutoEnc", GREY, in_channels=1, img_size=32, patch_size=4, hidden_size=32, mlp_dim=64, num_layers=1,
         num_heads=2, spatial_dims=2),
    _net("MaskedAutoEncoderViT", GREY, in_channels=1, img_size=32, patch_size=8, hidden_size=32, mlp_dim=64,
         num_layers=1, num_heads=2, decoder_hidden_size=32, decoder_mlp_dim=32, decoder_num_layers=1,
         decoder_num_heads=2, spatial_dims=2),
    _net("DenseNet", GREY, **PLAIN, init_features=8, growth_rate=4, block_config=(2, 2)),
    _net("DenseNet121", volume(32), called="DenseNet121_3d", spatial_dims=3, in_channels=1, out_channels=2,
         init_features=8, growth_rate=4),
    _net("resnet10", GREY, spatial_dims=2, n_input_channels=1, num_classes=4),
    _net("resnet18", volume(16), called="resnet18_3d", spatial_dims=3, n_input_channels=1, num_classes=4),
    _net("SEResNet50", GREY, spatial_dims=2, in_channels=1, num_classes=4, layers=(1, 1, 1, 1)),
    _net("EfficientNetBN", GREY, "efficientnet-b0", pretrained=False, spatial_dims=2, in_channels=1, num_classes=4),
    _net("FlexibleUNet", GREY, in_channels=1, out_channels=2, backbone="efficientnet-b0",
         decoder_channels=(16, 16, 8, 8, 8), spatial_dims=2),
    _net("AutoEncoder", GREY, **PLAIN, channels=(4, 8), strides=(2, 2)),
    _net("VarAutoEncoder", GREY, spatial_dims=2, in_shape=(1, 32, 32), out_channels=1, latent_size=4, channels=(4, 8),
         strides=(2, 2)),
    _net("AutoencoderKL", GREY, spatial_dims=2, in_channels=1, out_channels=1, channels=(8, 8), latent_channels=2,
         num_res_blocks=1, norm_num_groups=4, attention_levels=(False, True)),
    _net("VQVAE", GREY, spatial_dims=2, in_channels=1, out_channels=1, channels=(8, 8), num_res_channels=(8, 8),
         num_res_layers=1, downsample_parameters=((2, 4, 1, 1), (2, 4, 1, 1)),
         upsample_parameters=((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)), num_embeddings=8, embedding_dim=4),
    _net("DiffusionModelUNet", lambda batch: (torch.randn(batch, 1, 16, 16), torch.arange(1, batch + 1)), spatial_dims=2,
         in_channels=1, out_channels=1, channels=(8, 8), attention_levels=(False, True), num_res_blocks=1,
         num_head_channels=4, norm_num_groups=4),
    _net("Generator", lambda batch: (torch.randn(batch, 8),), latent_shape=(8,), start_shape=(4, 4, 4), channels=(8, 1),
         strides=(2, 1)),
    _net("Discriminator", GREY, in_shape=(1, 32, 32), channels=(4, 8), strides=(2, 2)),
    _net("Regressor", GREY, in_shape=(1, 32, 32), out_shape=(2,), channels=(4, 8), strides=(2, 2)),
    _net("PatchDiscriminator", GREY, spatial_dims=2, channels=8, in_channels=1, num_layers_d=2),
    _net("FullyConnectedNet", lambda batch: (torch.randn(batch, 8),), 8, 2, [16, 16]),
    _net("Quicknat", image(32, channels=1), num_classes=3, num_channels=1, num_filters=8, se_block="None"),
    _net("Classifier", GREY, in_shape=(1, 32, 32), classes=3,
         channels=(4, 8), strides=(2, 2)),
]  # fmt: skip
