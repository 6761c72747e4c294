"""Why FLOPs or bytes may differ between a model and its meta twin; MACs never do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A difference between devices that is understood: where it shows, and in which columns."""

    name: str
    text: str
    columns: tuple[str, ...] = ("bytes",)
    ops: tuple[str, ...] = ()
    """The ops it may touch; any, where none is named."""
    modules: tuple[str, ...] = ()
    """The kinds of modules it may touch; any, where none is named."""

    certain: bool = True
    """Whether it shows whenever it is stated; a router may happen to be balanced."""

    def covers(self, column: str, module: str, op: str) -> bool:
        """Whether a difference is of this kind."""
        return (
            column in self.columns and (not self.ops or op in self.ops) and (not self.modules or module in self.modules)
        )


NUMPY = Reason(
    "numpy",
    "torch.tensor copies a numpy array once more when the result stays on the CPU",
    ops=("aten._to_copy",),
)
ROUTING = Reason(
    "routing",
    "the twin's router is balanced, the real one's is not: as many tokens in all, other tensors for each expert",
    columns=("flops", "bytes"),
    certain=False,
)
