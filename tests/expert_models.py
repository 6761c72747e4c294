"""Small mixtures of experts, one for each way in which models run their experts."""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOICES = 24, 8, 16, 4, 2


class Expert(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))


class Loop(nn.Module):
    """Each expert on the tokens that chose it."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(CHOICES, dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(chosen == i)
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


class Top1(nn.Module):
    """One expert for each token, by argmax."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        chosen = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out[chosen == i] = expert(x[chosen == i])
        return out


class Grouped(nn.Module):
    """All experts in one product of groups of rows."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(CHOICES, dim=-1)
        order = chosen.flatten().argsort()
        ends = torch.bincount(chosen.flatten(), minlength=EXPERTS).cumsum(0).to(torch.int32)
        rows = x.repeat_interleave(CHOICES, 0)[order]
        made = torch._grouped_mm(torch._grouped_mm(rows, self.up, offs=ends).relu(), self.down, offs=ends)
        return made * weights.flatten()[order, None]


class Sliced(Grouped):
    """Each expert that was chosen by itself, as a slice of all their weights."""

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(CHOICES, dim=-1)
        taken = F.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for expert in taken.sum((-1, -2)).nonzero():
            place, token = torch.where(taken[expert[0]])
            made = (x[token] @ self.up[expert[0]]).relu() @ self.down[expert[0]]
            out.index_add_(0, token, made * weights[token, place, None])
        return out


class Picked(Grouped):
    """The weights of every choice of every token are picked and multiplied by themselves."""

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(CHOICES, dim=-1)
        rows = x.repeat_interleave(CHOICES, 0)[:, None]
        made = torch.bmm(torch.bmm(rows, self.up[chosen.flatten()]).relu(), self.down[chosen.flatten()])
        return (made.squeeze(1) * weights.flatten()[:, None]).view(len(x), CHOICES, -1).sum(1)


class Dense(Grouped):
    """Every token goes through every expert; what the router did not choose is multiplied by zero."""

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(CHOICES, dim=-1)
        shares = torch.zeros(len(x), EXPERTS).scatter(1, chosen, weights)
        made = torch.bmm(torch.bmm(x.expand(EXPERTS, -1, -1), self.up).relu(), self.down)
        return (made * shares.t()[:, :, None]).sum(0)


class Permuted(nn.Module):
    """The experts are a module that gets the rows in their order, more of them than there are tokens."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
            self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH))

        def forward(self, rows, ends):
            return torch._grouped_mm(torch._grouped_mm(rows, self.up, offs=ends).relu(), self.down, offs=ends)

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = self.Experts()

    def choose(self, x):
        return self.router(x).softmax(-1).topk(CHOICES, dim=-1)

    def forward(self, x):
        weights, chosen = self.choose(x)
        order = chosen.flatten().argsort()
        ends = torch.bincount(chosen.flatten(), minlength=EXPERTS).cumsum(0).to(torch.int32)
        made = self.experts(x.repeat_interleave(CHOICES, 0)[order], ends)
        return made * weights.flatten()[order, None]


class Hashed(Permuted):
    """No scores: a token's place says which experts it goes to."""

    def choose(self, x):
        places = torch.arange(len(x) * CHOICES).view(-1, CHOICES) % EXPERTS
        return torch.ones(places.shape), places
