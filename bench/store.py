"""What saving and loading a profile of 50,001 modules costs, beside `json` writing and reading the same data.

python bench/store.py [--modules 50000] [--rounds 5]
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from turns import interleaved, say

import flopsight
from flopsight.results.costs import Cost, OpRow, Phases
from flopsight.results.node import Node
from flopsight.results.profile import Profile
from flopsight.results.records import Parameter


def wide(modules: int) -> Profile:
    """A model of many linear layers, counted and timed; every layer's times are its own."""
    cost = Cost(4 * 64 * 64, 0, 4 * (64 * 64 + 64 + 2 * 4 * 64))
    row = OpRow("aten.addmm", "forward", 1, cost, "counted", (((64,), (4, 64), (64, 64)),), "float32")
    layers = tuple(
        Node(
            path=f"layers.{i}",
            name=str(i),
            kind="Linear",
            own=Phases(cost),
            parameters=(Parameter(2 * i, "weight", 64 * 64), Parameter(2 * i + 1, "bias", 64)),
            calls=1,
            input_shapes=((4, 64),),
            output_shapes=((4, 64),),
            input_bytes=4 * 4 * 64,
            output_bytes=4 * 4 * 64,
            latency=1e-5 + i * 1e-11,
            ops=(row,),
            extra_repr="in_features=64, out_features=64, bias=True",
        )
        for i in range(modules)
    )
    return Profile(Node("", "", "Net", children=layers, calls=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of each kind")
    given = parser.parse_args()
    profile = wide(given.modules)
    with TemporaryDirectory() as folder:
        path, plain = profile.save(Path(folder) / "p.json"), Path(folder) / "plain.json"
        page = json.loads(path.read_text())

        def dump() -> None:
            with plain.open("w") as file:
                json.dump(page, file)

        def read() -> None:
            with path.open() as file:
                json.load(file)

        kinds = {
            "json.dump": dump,
            "profile.save": lambda: profile.save(path),
            "json.load": read,
            "flopsight.load": lambda: flopsight.load(path),
        }
        times = interleaved(kinds, given.rounds)
        size = path.stat().st_size / 1e6
    print(f"{given.modules + 1:,} modules, {size:.1f} MB, medians of {given.rounds} interleaved runs, processor time")
    say(
        "profile.save over json.dump",
        times["profile.save"] / times["json.dump"],
        f"{times['profile.save']:.2f} s, aim 1 s",
    )
    say(
        "flopsight.load over json.load",
        times["flopsight.load"] / times["json.load"],
        f"{times['flopsight.load']:.2f} s, aim 1.5 s",
    )


if __name__ == "__main__":
    main()
