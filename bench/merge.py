"""Merging the files of a large job: 1,024 ranks of a model of 1,000 modules, against 10 seconds and 1 GB.

python bench/merge.py [--ranks 1024] [--modules 1000]
"""

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from flopsight.distributed.join import merge
from flopsight.files import store
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Profile
from flopsight.results.rank_summary import summary_of
from flopsight.results.records import Parameter
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import World

SECONDS, BYTES = 10.0, 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--modules", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), asked.ranks, asked.modules)
        begin = time.perf_counter()
        job = merge(folder)
        merged = time.perf_counter() - begin
        job.save(Path(folder) / "job" / "job.json")
        saved = time.perf_counter() - begin
        written = (Path(folder) / "job" / "job.json").stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{asked.ranks} files of {asked.modules} modules, {size / 1e3:.0f} kB each, all ranks {len(job.ranks)}")
    print(f"merged in {merged:.2f} s, merged and saved in {saved:.2f} s ({written / 1e6:.1f} MB); aim {SECONDS:.0f} s")
    print(f"peak memory {peak / 1e6:.0f} MB; aim {BYTES / 1e6:.0f} MB")
    assert saved <= SECONDS, "slower than aimed at"
    assert peak <= BYTES, "larger than aimed at"


def write(folder: Path, ranks: int, modules: int) -> int:
    """Rank files that differ in their times; below the first line they are written as they are."""
    profile = Profile(tree(modules), world=World(ranks, 0, data_parallel=ranks), timing=Timing(forward=Stat((1.0,))))
    first, _, rest = store.dumps(profile).partition("\n")
    tree_print = store.loads_summary(first)[0]
    for rank in range(ranks):
        one = replace(
            profile, world=replace(profile.world, rank=rank), timing=Timing(forward=Stat((1.0 + rank / ranks,)))
        )
        (folder / f"rank{rank}.json").write_text(f"{head(one, tree_print)}\n{rest}")
    return len(rest)


def head(profile: Profile, tree_print: str) -> str:
    """The first line of a rank's file; the fingerprint of the tree is the same for all, so it is made once."""
    small = store.dumps(summary_of(profile)).partition("\n")[0]
    own, _ = store.loads_summary(small)
    return small.replace(own, tree_print)


def tree(modules: int) -> Node:
    """Blocks of nine layers, with as many op rows as a trained transformer has."""
    op = OpRow("aten.mm", "forward", 1, Cost(macs=1_000_000), shapes=(((512, 1024), (1024, 1024)),), dtype="float32")
    ops = tuple(replace(op, op=f"aten.op{i}", phase=phase) for i in range(4) for phase in ("forward", "backward"))
    work = Phases(forward=Cost(macs=4_000_000, bytes=1 << 20), backward=Cost(macs=8_000_000, bytes=1 << 21))

    def layer(block: int, index: int) -> Node:
        key = block * 9 + index
        weight = Parameter(key, "weight", 1024 * 1024)
        path = f"blocks.{block}.layer{index}"
        return Node(
            path, f"layer{index}", "Linear", own=work, parameters=(weight,), calls=1, input_shapes=((512, 1024),),
            output_shapes=((512, 1024),), latency=1e-3, own_activation_bytes=1 << 20, ops=ops,
        )  # fmt: skip

    blocks = tuple(
        Node(f"blocks.{b}", str(b), "Block", children=tuple(layer(b, i) for i in range(9)), calls=1)
        for b in range(modules // 10)
    )
    return Node("", "", "Net", children=(Node("blocks", "blocks", "ModuleList", children=blocks),), calls=1)


if __name__ == "__main__":
    main()
