# torchvision asks for a torch of its own kind, and timm for torchvision: the torch that is here is the right one.
python -m pip install --quiet --disable-pip-version-check --no-deps timm==1.0.30 torchvision==0.28.0
