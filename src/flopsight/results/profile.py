"""A profile: a tree of modules with costs and times, a plain value that saves, compares and renders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import units
from ..errors import InputError, did_you_mean
from .ceilings import Ceilings, Conditions
from .comm import CommRow, merged
from .costs import Phases, Worked
from .coverage import NOTHING_RAN, Coverage
from .data_flow import DataFlow
from .environment import NOT_STATED, Environment
from .in_notebooks import Shown
from .memory_curve import MemoryCurve
from .node import MOST_LETTERS, Node
from .read_only import FixedTables, ReadOnly
from .records import OUTSIDE, Padding, Span
from .timings import NOT_TIMED, Timing
from .world import ALONE, Whole, World

if TYPE_CHECKING:
    from ..analysis.findings import Finding
    from ..render.pictures import Pictures
    from .caveats import Caveat


WRAPPED = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "DeepSpeedEngine": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Wrappers by class, and the name under which each holds the model: it is not part of a module's plain name."""
SHARDED = "FSDP"
"""What fully_shard puts in front of the name of a module's class."""


@dataclass(frozen=True)
class Profile(Worked, Shown, FixedTables):
    """Everything known about one run of one model.

    `print(p)` or a notebook shows it, `p.to_html("report.html")` writes a page, `p.plot.icicle()` draws. `p["encoder.layer.0"]` is
    a module, `p.flops`, `p.latency`, `p.peak_bytes`, `p.mfu` are totals, `p.findings` what to change, `p.coverage` what is unknown.
    """

    root: Node
    """The model: the topmost module of the tree."""
    coverage: Coverage = NOTHING_RAN
    """How much of what ran is accounted for."""
    timing: Timing = NOT_TIMED
    """Times of plain runs, without anything attached."""
    environment: Environment = NOT_STATED
    """Where and with what it was made."""
    caveats: tuple[Caveat, ...] = ()
    """What is doubtful about it; each prints as a sentence."""
    batch_size: int | None = None
    """Samples in the batch, if the inputs say so."""
    tokens: int | None = None
    """Tokens in the batch, if the inputs say so."""
    trained: bool = False
    """Whether a backward ran."""
    step: int | None = None
    """The step of the user's loop that this is."""
    recompute_fwd_factor: float = 0.0
    """Recomputed forwards to add to the FLOPs, as DeepSpeed's settings state them; 0 if they were counted."""
    peak_bytes: int | None = None
    """Most memory alive at once during the step: parameters, gradients, state, activations, temporaries."""
    at_peak: Mapping[str, int] = field(default_factory=dict)
    """What was alive at the peak, in bytes by kind."""
    memory_curve: MemoryCurve | None = None
    """How memory rose and fell over the step, by kind."""
    data_flow: DataFlow | None = None
    """Which module made the data that another one took, if memory was followed."""
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    """Dense peak of the device by dtype, in FLOP/s, if the device is known."""
    ceilings: Ceilings | None = None
    """What limits are taken against: what was measured on the machine, else the datasheet's figures."""
    padding: Padding | None = None
    """How much of the batch is padding, if a mask or a padding token among the inputs says so."""
    timeline: tuple[Span, ...] = ()
    """One traced run, if a timeline was asked for."""
    world: World = ALONE
    """The processes that ran the model together."""
    unsharded: Whole | None = None
    """The model rebuilt without its parallel wrappers and counted; None if this rank holds all that it knows of."""
    part: str = ""
    """Why this rank cannot know the whole model; empty if it can."""
    dry_run: bool = False
    """Whether a mesh was tried in one process, without the other ranks."""

    def __post_init__(self) -> None:
        """Fix the tables, and have nodes that know the conditions of this profile."""
        super().__post_init__()
        object.__setattr__(self, "root", self.root.under(self.conditions))

    def __getitem__(self, path: str) -> Node:
        if not isinstance(path, str):
            raise InputError(
                f"A profile takes the name of a module, like profile['layers.0'], not {type(path).__name__}. "
                f"profile.walk() goes through all of them."
            )
        found = self.nodes.get(path) or self.plain_paths.get(path)
        if found is None:
            raise InputError(f"The profile has no module {path!r}.{did_you_mean(path, self.nodes)}")
        return found

    def __contains__(self, path: object) -> bool:
        return path in self.nodes or path in self.plain_paths

    @cached_property
    def conditions(self) -> Conditions:
        """What the limits of its modules depend on beside their work."""
        env = self.environment
        return Conditions(env.device_name, env.dtype, self.peak_flops, self.ceilings, self.timing, self.trained)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by qualified name."""
        return ReadOnly((node.path, node) for node in self.root.walk())

    @cached_property
    def plain_paths(self) -> Mapping[str, Node]:
        """Every node by its name in the model without wrappers such as DistributedDataParallel.

        A wrapper and what it wraps have the same plain name, which leads to the wrapper.
        """
        found: dict[str, Node] = {}
        todo = [(self.root, "")]
        while todo:
            node, plain = todo.pop()
            found.setdefault(plain, node)
            for child in reversed(node.children):
                path = f"{plain}.{child.name}" if plain else child.name
                todo.append((child, plain if child.name == WRAPPED.get(node.kind.removeprefix(SHARDED)) else path))
        return ReadOnly(found)

    def walk(self) -> Iterator[Node]:
        """Every node, parents first."""
        return self.root.walk()

    @property
    def params(self) -> int:
        """Elements in the model's distinct parameter tensors."""
        return self.root.params

    @property
    def active_params(self) -> int | None:
        """Those of `params` that one token passes, if a router chooses among experts; None if that is not known."""
        return self.root.active_params

    @property
    def trainable_params(self) -> int:
        """Those of `params` that require a gradient."""
        return self.root.trainable_params

    @property
    def _phases(self) -> Phases:
        return self.root.total

    @property
    def outside(self) -> Node | None:
        """What ran outside every module, if anything did."""
        return self.nodes.get(OUTSIDE)

    @property
    def latency(self) -> float | None:
        """Seconds of one forward pass: the median of the plain runs."""
        return self.timing.forward.median if self.timing.forward else None

    @property
    def activation_bytes(self) -> int:
        """Bytes saved for backward, each storage once, without parameters and model inputs."""
        return self.root.activation_bytes

    @property
    def largest_at_peak(self) -> list[tuple[str, int]]:
        """What was alive at the peak, the largest kind first."""
        return sorted(self.at_peak.items(), key=lambda part: -part[1])

    @property
    def throughput(self) -> float | None:
        """Samples per second: of whole steps if steps were timed, else of forward passes."""
        stat = self.timing.whole
        return self.batch_size / stat.median if self.batch_size and stat and stat.median else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second, like `throughput`."""
        rate = self.throughput
        return rate * self.tokens / self.batch_size if rate and self.tokens and self.batch_size else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization; None if the device's peak or the time is not known."""
        from ..analysis.limits.utilization import mfu

        return mfu(self)

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs utilization, recompute included; None if the peak or the time is not known."""
        from ..analysis.limits.utilization import hfu

        return hfu(self)

    def mfu_at(self, seconds: float, device: str | None = None) -> float | None:
        """MFU of a step that takes `seconds`, on `device`, by name, or the profile's own; None without a peak."""
        from ..analysis.limits.utilization import mfu_at

        return mfu_at(self, seconds, device)

    def limit(self, device: str | None = None) -> float | None:
        """The least seconds for one step by the roofline of a device: every op at its peak or at full bandwidth.

        `device` is a name that `flopsight device` knows, `"h100-sxm"`; without one it is the device of the profile.
        None if a peak that it takes is not known.
        """
        from ..analysis.limits.roofline import profile_limit

        return profile_limit(self, device)

    def bound(self, device: str | None = None) -> str | None:
        """What holds the model back on `device`, as in `limit`: compute, memory, launch, communication or "depends on fusion"."""
        from ..analysis.limits.roofline import node_bound

        return node_bound(self.root, device)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What could be changed, the largest win first; each says what, where, by which numbers, and the next move."""
        from ..analysis.findings import findings

        return findings(self)

    @property
    def whole(self) -> Whole | None:
        """The unsharded model at this rank's batch; None if this rank knows only a part of it, which `part` explains."""
        return None if self.part else self.own_whole

    @property
    def own_whole(self) -> Whole:
        """What this rank's part of the model is without the ranks that share its tensors: of a pipeline, one stage."""
        kept = self.activation_bytes, self.peak_bytes, self.root.whole_active_params
        return self.unsharded or Whole(
            self.root.whole_params, self.macs, self.flops, self.backward, self.recompute, *kept
        )

    @cached_property
    def comm(self) -> tuple[CommRow, ...]:
        """What this rank exchanged with others, all modules together; set-up traffic is left out."""
        return merged(row for node in self.walk() for row in node.comm)

    @cached_property
    def setup_comm(self) -> tuple[CommRow, ...]:
        """One-time traffic of the first steps."""
        return merged(row for node in self.walk() for row in node.setup_comm)

    def to_html(self, path: str | Path, *, depth: int | None = None, full: bool = False) -> Path:
        """Write a report page that needs nothing beside it to `path`: modules down to `depth`, every block of a stack if `full`."""
        from ..render.html import write

        return write(self, Path(path), depth=depth, full=full)

    @property
    def plot(self) -> Pictures:
        """Figures for a notebook or a paper: `p.plot.icicle()`, `.roofline()`, `.memory()`, `.timeline()`."""
        from ..render.pictures import Pictures

        return Pictures(self)

    def to_frame(self) -> Any:
        """One row a module, as a pandas DataFrame."""
        from ..render.rows import to_frame

        return to_frame(self)

    @property
    def one_line(self) -> str:
        """The profile's largest figures in one line."""
        root = self.root
        parts = [root.params_text, f"{units.si(root.macs)} MACs", f"{units.si(root.flops)} FLOPs"]
        parts += [f"{units.si(root.backward.flops)} FLOPs backward"] if self.trained else []
        parts += [f"{units.seconds(self.latency)} forward"] if self.latency else []
        parts += [f"peak {units.size(self.peak_bytes)}"] if self.peak_bytes else []
        parts += [f"{self.coverage.unknown_calls} op calls unknown"] if self.coverage.unknown else []
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Profile of {self.root.kind}: {self.one_line}>"[:MOST_LETTERS]
