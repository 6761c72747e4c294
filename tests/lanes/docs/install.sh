# torchvision's own dependencies would replace the torch that is pinned
python -m pip install --quiet --disable-pip-version-check --no-deps torchvision==0.28.0 timm==1.0.30
