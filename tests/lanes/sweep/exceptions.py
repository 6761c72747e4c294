"""The architectures that have no twin, which are counted on real tensors instead, and those that cannot be trained on one sample."""

EXCEPTIONS = {
    "vit_pytorch/ats_vit": "aten._unique2 in transformer.layers.0.0.ats (ats_vit.py:",
    "routing_transformer/RoutingTransformerLM": "RoutingTransformer) has hooks",
    "mixture_of_experts/MoE": "aten._local_scalar_dense in gate (mixture_of_experts.py:",
    "torch_geometric/GraphUNet": "Cannot access storage of SparseCsrTensorImpl",
    "kornia/DISK": "aten.nonzero in the model (detector.py:",
}
"""It keeps as many tokens as differ; its modules have hooks of their own; its capacity is a number taken from the routing;
it multiplies sparse matrices, which meta cannot hold; it returns as many key points as it finds."""
ONE_VALUE = {
    "kornia/HardNet", "kornia/HyNet", "kornia/SOSNet", "monai/DenseNet121_3d", "monai/EfficientNetBN",
    "monai/FlexibleUNet", "monai/SEResNet50", "monai/resnet18_3d", "pytorch_tabnet/TabNet",
    "rtdl_revisiting_models/ResNet", "open_clip/resnet",
    "segmentation_models_pytorch/DeepLabV3", "segmentation_models_pytorch/DeepLabV3Plus",
    "segmentation_models_pytorch/PAN", "segmentation_models_pytorch/UPerNet", "vit_pytorch/CvT",
}  # fmt: skip
"""At batch 1 a batch norm would train on one value a channel, which torch refuses; there they are compared in inference."""
