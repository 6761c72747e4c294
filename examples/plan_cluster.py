"""Which way to divide a model over GPUs, before they are booked.

python examples/plan_cluster.py
"""

import flopsight


def main():
    plan = flopsight.plan("zoo:gpt2", gpus=8, on="h100-sxm", batch=64, checkpoint="none")
    print(plan)
    best = plan.best
    print(
        f"best: {dict(best.mesh)}, micro-batches of {best.micro_batch}, {best.step * 1e3:.1f} ms a step, bound by {best.bound}"
    )
    return plan


if __name__ == "__main__":
    main()
