"""Frameworks that spread a model over two ranks: what each rank does, and the whole that it knows."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from script.running import free_port

SCRIPT = Path(__file__).parent / "scripts" / "parallel.py"


def ranks(folder, framework):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), framework], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [pickle.loads((folder / f"rank{rank}.pickle").read_bytes()) for rank in (0, 1)]


@pytest.fixture(scope="module", name="planned")
def _planned(tmp_path_factory):
    return ranks(tmp_path_factory.mktemp("plan"), "tp_plan")


def test_the_whole_of_a_tensor_parallel_plan_is_the_model_by_itself(planned):
    for alone, first, second in planned:
        for spread in (first, second):
            assert (spread.whole.params, spread.whole.macs) == (alone.params, alone.macs)
            assert spread.whole.flops == alone.flops
            assert spread.whole.backward == alone.backward
            assert (spread.world.mesh, spread.world.model_parallel) == ({"tp": 2}, 2)


def test_a_tensor_parallel_plan_halves_every_product(planned):
    for alone, first, second in planned:
        assert first.macs == second.macs == alone.macs // 2
        assert first.backward.macs == second.backward.macs == alone.backward.macs // 2
        norms = 5 * 32  # which every rank has: two a layer and one at the end
        assert first.params == (alone.params - norms) // 2 + norms


def test_a_plan_sums_up_once_behind_every_second_product(planned):
    for _, first, _ in planned:
        outputs = {node.path for node in first.walk() for row in node.comm if row.phase == "forward"}
        sums = {f"model.layers.{layer}.{name}" for layer in (0, 1) for name in ("self_attn.o_proj", "mlp.down_proj")}
        assert outputs == {"model.embed_tokens", "lm_head", *sums}
        # 2 sequences of 8 tokens, 32 floats each
        assert {row.bytes for path in sums for row in first[path].comm if row.phase == "forward"} == {2 * 8 * 32 * 4}


def test_lightning_with_fsdp2_shows_shards_and_what_they_send(tmp_path):
    for (profile,) in ranks(tmp_path, "lightning"):
        assert (profile.params, profile.whole.params, profile.macs) == (1_024, 2_048, 16_384)
        assert (profile.world.data_parallel, profile.world.mesh) == (2, {"data_parallel": 2})
        assert {(row.op, row.calls * row.bytes // row.calls) for row in profile.comm} == {
            ("all_gather", 4_096), ("reduce_scatter", 8_192),
        }  # fmt: skip
        assert profile["net.0.up"].macs == 4_096


def test_accelerate_with_fsdp2_shows_shards_and_what_they_send(tmp_path):
    for (profile,) in ranks(tmp_path, "accelerate"):
        assert (profile.params, profile.whole.params, profile.macs) == (1_024, 2_048, 16_384)
        assert (profile.world.size, profile.world.data_parallel, profile.world.sharded) == (2, 2, True)
        # two blocks, each gathered forward and backward: a shard of 512 floats; scattered once: 1,024 floats
        assert {(row.op, row.phase, row.calls, row.bytes) for row in profile.comm} == {
            ("all_gather", "forward", 2, 2 * 2_048), ("all_gather", "backward", 2, 2 * 2_048),
            ("reduce_scatter", "backward", 2, 2 * 4_096),
        }  # fmt: skip


def test_the_trainer_with_fsdp2_does_the_work_of_the_model_and_trains_on_after_the_window(tmp_path):
    for profile, alone, logs in ranks(tmp_path, "trainer"):
        assert (profile.params, profile.whole.params) == (alone.params // 2, alone.params)
        assert (profile.macs, profile.backward.macs) == (alone.macs, alone.backward.macs)
        assert (profile.world.data_parallel, profile.world.sharded) == (2, True)
        # every parameter is gathered once forward and scattered once: half of them handed in, then all of them
        assert (
            sum(row.bytes for row in profile.comm if (row.op, row.phase) == ("all_gather", "forward"))
            == alone.params * 2
        )
        assert sum(row.bytes for row in profile.comm if row.op == "reduce_scatter") == alone.params * 4
        assert logs == 2, (
            "every rank logs at the end of the window and at the end, since ranks exchange their losses for it"
        )


@pytest.fixture(scope="module", name="compiled")
def _compiled(tmp_path_factory):
    return ranks(tmp_path_factory.mktemp("compiled"), "compiled")


@pytest.mark.parametrize("name", ["compiled DDP", "DDP of compiled blocks"])
def test_compiled_replicas_send_one_bucket(compiled, name):
    for found in compiled:
        profile = found[name]
        assert [(row.op, row.phase, row.calls, row.bytes) for row in profile.comm] == [
            ("all_reduce", "backward", 1, 8_192)
        ]
        assert (profile.macs, profile.backward.macs, profile["0.up"].macs) == (16_384, 28_672, 4_096)


@pytest.mark.parametrize("name", ["compiled FSDP2", "FSDP2 of compiled blocks"])
def test_compiled_shards_gather_and_scatter_by_block(compiled, name):
    for found in compiled:
        profile = found[name]
        assert (profile.params, profile.whole.params, profile["0.up"].macs) == (1_024, 2_048, 4_096)
        assert {(row.op, row.phase, row.calls, row.bytes) for row in profile.comm} == {
            ("all_gather", "forward", 2, 2 * 2_048), ("all_gather", "backward", 2, 2 * 2_048),
            ("reduce_scatter", "backward", 2, 2 * 4_096),
        }  # fmt: skip
