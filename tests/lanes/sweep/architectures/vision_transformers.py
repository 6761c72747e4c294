"""vit-pytorch: one file a paper, of which one model each."""

import torch
from torch import nn

from .entry import built, image, made, video

VIT = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
VIDEO = {
    "image_size": 32, "image_patch_size": 8, "frames": 4, "frame_patch_size": 2, "num_classes": 10, "dim": 32,
    "depth": 2, "heads": 2, "mlp_dim": 64,
}  # fmt: skip


def _vit(file, maker="ViT", inputs=None, **options):
    return made(f"vit_pytorch.{file}:{maker}", inputs or image(32), called=file, **{**VIT, **options})


@built("vit_pytorch", "efficient_with_nystrom")
def _efficient(batch):
    from nystrom_attention import Nystromformer
    from vit_pytorch.efficient import ViT

    inner = Nystromformer(dim=32, depth=2, heads=2, dim_head=16, num_landmarks=4)
    model = ViT(dim=32, image_size=32, patch_size=8, num_classes=10, transformer=inner)
    return model, (torch.randn(batch, 3, 32, 32),)


@built("vit_pytorch", "distill")
def _distill(batch):
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    teacher = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    model = DistillWrapper(student=DistillableViT(**VIT), teacher=teacher, temperature=3, alpha=0.5)
    return model, (torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,)))


@built("vit_pytorch", "learnable_memory_adapter")
def _adapter(batch):
    from vit_pytorch.learnable_memory_vit import Adapter, ViT

    return Adapter(vit=ViT(**VIT), num_classes=2, num_memories_per_layer=3), (torch.randn(batch, 3, 32, 32),)


ENTRIES = [
    _vit("vit"),
    _vit("simple_vit", "SimpleViT"),
    _vit("deepvit", "DeepViT"),
    _vit("cait", "CaiT", cls_depth=1),
    _vit("parallel_vit", num_parallel_branches=2),
    _vit("vit_for_small_dataset"),
    _vit("vit_with_patch_merger", patch_merge_layer=1, patch_merge_num_tokens=4),
    _vit("vit_with_patch_dropout"),
    _vit("simple_vit_with_patch_dropout", "SimpleViT"),
    _vit("simple_vit_with_register_tokens", "SimpleViT"),
    _vit("simple_vit_with_qk_norm", "SimpleViT"),
    _vit("simple_vit_with_fft", "SimpleViT", freq_patch_size=8),
    _vit("simple_vit_with_value_residual", "SimpleViT"),
    _vit("simple_vit_with_hyper_connections", "SimpleViT", num_residual_streams=2),
    _vit("simple_flash_attn_vit", "SimpleViT"),
    _vit("normalized_vit", "nViT"),
    _vit("ats_vit", max_tokens_per_depth=(8, 4)),
    _vit("learnable_memory_vit"),
    _vit("jumbo_vit", "JumboViT"),
    _vit("mp3"),
    _vit("rvt", "RvT"),
    _vit("simple_uvit", "SimpleUViT"),
    _vit("vit_with_decorr"),
    made("vit_pytorch.vit_3d:ViT", video(4, 32), called="vit_3d", **VIDEO),
    made("vit_pytorch.simple_vit_3d:SimpleViT", video(4, 32), called="simple_vit_3d", **VIDEO),
    made(
        "vit_pytorch.vivit:ViViT", video(4, 32), called="vivit", image_size=32, image_patch_size=8, frames=4,
        frame_patch_size=2, num_classes=10, dim=32, spatial_depth=1, temporal_depth=1, heads=2, mlp_dim=64,
    ),
    made("vit_pytorch.vit_1d:ViT", lambda batch: (torch.randn(batch, 3, 64),), called="vit_1d", seq_len=64, patch_size=8,
         num_classes=10, dim=32, depth=2, heads=2, mlp_dim=64),
    made("vit_pytorch.cct:CCT", image(32), img_size=32, embedding_dim=32, n_conv_layers=2, kernel_size=3, stride=2,
         padding=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=10),
    made("vit_pytorch.cross_vit:CrossViT", image(48), image_size=48, num_classes=10, depth=1, sm_dim=16, lg_dim=32,
         sm_patch_size=12, lg_patch_size=16, sm_enc_heads=2, lg_enc_heads=2, lg_enc_depth=1, sm_enc_mlp_dim=32,
         lg_enc_mlp_dim=32),
    made("vit_pytorch.crossformer:CrossFormer", image(64), dim=(32, 32, 64, 64), depth=(1, 1, 1, 1),
         global_window_size=(4, 2, 1, 1), local_window_size=2, num_classes=10),
    made("vit_pytorch.cvt:CvT", image(32), num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s2_depth=1, s3_emb_dim=32,
         s3_depth=1, s2_heads=2, s3_heads=2),
    made("vit_pytorch.levit:LeViT", image(64), image_size=64, num_classes=10, stages=2, dim=(32, 64), depth=1,
         heads=(2, 4), mlp_mult=2),
    made("vit_pytorch.max_vit:MaxViT", image(64), num_classes=10, dim=16, depth=(1, 1), dim_head=16, window_size=4),
    made("vit_pytorch.max_vit_with_registers:MaxViT", image(64), called="max_vit_with_registers", num_classes=10,
         dim=16, depth=(1, 1), dim_head=16, window_size=4),
    made("vit_pytorch.mobile_vit:MobileViT", image(64), image_size=(64, 64), dims=[16, 16, 16],
         channels=[8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 32], num_classes=10, depths=(1, 1, 1)),
    made("vit_pytorch.nest:NesT", image(32), image_size=32, patch_size=4, dim=16, heads=2, num_hierarchies=3,
         block_repeats=(1, 1, 1), num_classes=10),
    made("vit_pytorch.pit:PiT", image(32), image_size=32, patch_size=8, dim=32, num_classes=10, depth=(1, 1),
         heads=2, mlp_dim=64),
    made("vit_pytorch.regionvit:RegionViT", image(56), dim=(16, 16, 32, 32), depth=(1, 1, 1, 1), num_classes=10,
         window_size=1, local_patch_size=4),
    made("vit_pytorch.scalable_vit:ScalableViT", image(64), num_classes=10, dim=16, heads=(1, 1, 2, 2),
         depth=(1, 1, 1, 1), ssa_dim_key=(8, 8, 8, 8), reduction_factor=(4, 2, 1, 1), window_size=(16, 8, 4, None)),
    made("vit_pytorch.t2t:T2TViT", image(32), dim=32, image_size=32, depth=1, heads=2, mlp_dim=64, num_classes=10,
         t2t_layers=((7, 4), (3, 2))),
    made("vit_pytorch.twins_svt:TwinsSVT", image(64), num_classes=10, s1_emb_dim=16, s1_patch_size=4,
         s1_local_patch_size=4, s1_global_k=4, s2_emb_dim=16, s2_local_patch_size=4, s2_global_k=4, s3_emb_dim=32,
         s3_local_patch_size=2, s3_global_k=2, s3_depth=1, s4_emb_dim=32, s4_patch_size=1, s4_local_patch_size=2,
         s4_global_k=2),
    made("vit_pytorch.xcit:XCiT", image(32), image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, cls_depth=1,
         heads=2, mlp_dim=64),
    made("vit_pytorch.look_vit:LookViT", image(32), image_size=32, num_classes=10, dim=32, depth=1, patch_size=8,
         heads=2, highres_patch_size=4, cross_attn_heads=2),
    made("vit_pytorch.na_vit:NaViT", lambda batch: ([[torch.randn(3, 32, 16), torch.randn(3, 16, 32)], [torch.randn(3, 32, 32)]][:batch],),
         **VIT),
    _efficient, _distill, _adapter,
]  # fmt: skip
