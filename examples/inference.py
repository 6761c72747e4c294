"""What one forward costs and how long it takes, module by module.

python examples/inference.py
"""

from torch import nn

import flopsight


def main():
    model = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 31 * 31, 10)).eval()
    profile = flopsight.profile(model, input_shape=(8, 3, 64, 64))
    print(profile)
    print(f"{profile.macs:,} MACs, {profile.params:,} parameters, {profile.latency * 1e3:.2f} ms")
    print(f"the first layer has {profile['0'].macs / profile.macs:.0%} of the MACs")
    return profile


if __name__ == "__main__":
    main()
