"""Every architecture that we count three times: on real tensors, on meta, and with torch's own counter."""

from architectures import diffusion, language, mixtures, perception, recurrent, timm_models, vision
from architectures.entry import Architecture, Example

FAMILIES = (recurrent, vision, timm_models, language, mixtures, perception, diffusion)
ARCHITECTURES = {entry.name: entry for family in FAMILIES for entry in family.ARCHITECTURES}

__all__ = ["ARCHITECTURES", "Architecture", "Example"]
