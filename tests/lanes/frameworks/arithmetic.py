"""What the models in `scripts/` cost, worked by hand."""

LAYERS, HIDDEN, INNER, WORDS = 2, 32, 64, 96
WIDTH, BLOCKS, CLASSES = 6, 2, 10
BATCH = 4


def llama_macs(tokens):
    """One forward of a batch: per token four projections, three of the MLP and the head; per pair of tokens two products."""
    per_layer = tokens * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER) + 2 * tokens * tokens * HIDDEN
    return BATCH * (LAYERS * per_layer + tokens * HIDDEN * WORDS)


def llama_params():
    """Two embeddings, and per layer the projections, the MLP and two norms; one norm at the end."""
    return 2 * WORDS * HIDDEN + LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER + 2 * HIDDEN) + HIDDEN


def resnet_macs(side):
    """One forward of a batch: output places x kernel x channels in x channels out, and the head."""
    convolutions = 9 * 3 * WIDTH + BLOCKS * 2 * 9 * WIDTH * WIDTH
    return BATCH * (side * side * convolutions + WIDTH * CLASSES)


def resnet_params():
    """The stem with its bias; per block two convolutions and a norm of two numbers a channel; the head."""
    return 9 * 3 * WIDTH + WIDTH + BLOCKS * (2 * 9 * WIDTH * WIDTH + 2 * WIDTH) + WIDTH * CLASSES + CLASSES
