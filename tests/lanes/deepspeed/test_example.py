"""The example runs as it is, on two processes, and prints what its model costs."""

from pathlib import Path

from lanes.deepspeed.engines import launch


def test_the_example_prints_its_profile_and_its_macs():
    done = launch(2, Path(__file__).with_name("run_example.py"))

    assert done.stdout.count("Profile Summary at step 1:") == 1
    assert f"{2 * 16 * (64 * 256 + 256 * 10):,} MACs a step and rank" in done.stdout
