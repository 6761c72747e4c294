"""Every private torch API that flopsight uses, and every difference between torch releases: one file a subject, one name for all."""

import torch

from ....errors import TorchError

try:
    from .autocast import *
    from .autograd import *
    from .compiled_graphs import *
    from .compiler import *
    from .modes import *
    from .operators import *
    from .profiler import *
    from .saved_tensors import *
    from .tensor_parts import *
except (AttributeError, ImportError) as problem:
    raise TorchError(
        f"torch {torch.__version__} does not have what flopsight needs ({problem}). `flopsight doctor` names all that is missing."
    ) from problem
