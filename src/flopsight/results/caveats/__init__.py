"""Every doubt that a profile can carry: a closed list, each a value with its measurement and its advice."""

from .counts import *  # noqa: F403
from .kind import Caveat as Caveat
from .kind import Note as Note
from .latencies import *  # noqa: F403
from .steps import *  # noqa: F403


def all_kinds() -> dict[str, type[Caveat]]:
    """Every kind of caveat by name, for the store."""
    return {kind.__name__: kind for kind in Caveat.__subclasses__()}
