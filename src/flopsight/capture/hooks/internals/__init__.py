"""Every private torch API that flopsight uses, and every difference between torch releases: one file a subject, one name for all."""

from .autocast import *
from .autograd import *
from .compiler import *
from .modes import *
from .ops import *
from .profiler import *
from .saved_tensors import *
from .tensors import *
