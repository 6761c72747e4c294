"""A GAN: two models, two optimizers that step in turn."""

import torch
from torch import nn

NOISE, HIDDEN, DATA, BATCH = 4, 16, 6, 5


class Generator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(NOISE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DATA))


class Discriminator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(DATA, HIDDEN), nn.LeakyReLU(0.2), nn.Linear(HIDDEN, 1))


def main(steps: int = 8) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator, discriminator = Generator(), Discriminator()
    adversary = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
    forger = torch.optim.Adam(generator.parameters(), lr=2e-4)
    loss = nn.BCEWithLogitsLoss()
    real, fake = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    for step in range(steps):
        images = torch.randn(BATCH, DATA)
        forged = generator(torch.randn(BATCH, NOISE))
        adversary.zero_grad()
        error_d = loss(discriminator(images), real) + loss(discriminator(forged.detach()), fake)
        error_d.backward()
        adversary.step()

        forger.zero_grad()
        error_g = loss(discriminator(forged), real)
        error_g.backward()
        forger.step()
        print(f"step {step} D {error_d.item():.17g} G {error_g.item():.17g}")


if __name__ == "__main__":
    main()
