"""What could be changed: every finding is a small function over a profile; a model with nothing to say gets none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...results.job import Job
from ...results.profile import Profile
from .finding import Finding, Findings
from .fusion import chains_that_fuse, update_in_parts
from .launch import data_wait, launch_bound
from .memory_use import frozen_layers, recompute, too_large, unread_parameters, unused_modules
from .products import channels_first, odd_sizes, small_batch
from .ranks import collectives, imbalance, redundant_work
from .scene import Scene
from .unfused_attention import attention_in_parts
from .vocabulary import large_embedding, large_head
from .waste import padding, repeated_work
from .wide_dtypes import wide_norms, wide_products

__all__ = ["LOOKS", "Finding", "findings", "job_findings"]

LOOKS: tuple[Callable[[Scene], Iterator[Finding]], ...] = (
    too_large,
    launch_bound,
    data_wait,
    collectives,
    redundant_work,
    wide_products,
    wide_norms,
    attention_in_parts,
    channels_first,
    odd_sizes,
    small_batch,
    large_head,
    large_embedding,
    chains_that_fuse,
    update_in_parts,
    recompute,
    frozen_layers,
    repeated_work,
    padding,
    unused_modules,
    unread_parameters,
)
"""Every look at a profile. To add one: write its function, add its line, and add a test profile that triggers it and one that does not."""


def findings(profile: Profile, device: str | None = None) -> tuple[Finding, ...]:
    """Everything found: what keeps the step from running, then the largest win in time, then in memory; on a named device by limits alone.

    The wins are upper bounds, and they overlap: they do not add up.
    """
    scene = Scene(profile, device)
    return _ranked([scene.weighed(finding) for look in LOOKS for finding in look(scene)])


def job_findings(job: Job, device: str | None = None) -> tuple[Finding, ...]:
    """What was found on the rank that takes longest, and what only all ranks together show."""
    if not job.ranks:
        return ()
    slowest = job.slowest if job.slowest is not None else min(job.ranks)
    return _ranked([*imbalance(job), *findings(job.ranks[slowest], device)])


def _ranked(found: list[Finding]) -> Findings:
    return Findings(sorted(found, key=lambda finding: (not finding.blocks, -finding.seconds, -finding.bytes)))
