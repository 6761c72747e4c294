# Each of these would replace the torch that is here, or bring a torchvision or torchaudio that does not fit it.
python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    axial-attention==0.6.1 conformer==0.3.2 denoising-diffusion-pytorch==2.3.4 diffusers==0.42.1 efficientnet_pytorch==0.7.1 \
    egnn-pytorch==0.2.8 encodec==0.1.1 g-mlp-pytorch==0.1.5 iTransformer==0.8.1 kornia==0.9.0 lambda-networks==0.4.0 \
    linear-attention-transformer==0.19.1 linformer==0.2.3 local-attention==1.11.2 mambapy==1.2.0 \
    mixture-of-experts==0.2.3 mlp-mixer-pytorch==0.3.1 monai==1.6.1 nystrom-attention==0.0.14 open_clip_torch==3.3.0 \
    perceiver-pytorch==0.11.0 performer-pytorch==1.1.4 pretrainedmodels==0.7.4 pytorch-tabnet==4.1.0 \
    reformer-pytorch==1.4.4 routing-transformer==1.6.1 rtdl_revisiting_models==0.0.2 \
    segmentation_models_pytorch==0.6.0 sinkhorn-transformer==0.11.4 soft-moe-pytorch==0.1.9 torch-geometric==2.8.1 \
    vector-quantize-pytorch==1.32.0 vit-pytorch==1.26.11 x-transformers==2.31.10
# What they import of each other and of their makers' other packages.
python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    CoLT5-attention==0.11.2 accelerate==1.15.0 ema-pytorch gateloop-transformer hyper-connections==0.4.11 \
    product_key_memory==0.3.0 rotary-embedding-torch==0.9.1 timm==1.0.30 torch-einops-utils==0.2.0 torchvision==0.28.0
