"""TIDSProfiler: prints every module's shapes and latency in that profiler's format."""

from __future__ import annotations

from pathlib import Path

from ..results.profile import Profile
from .deepspeed_profiler import FlopsProfiler, check_page, write


class TIDSProfile(str):
    """The printed tree; `profile` holds its numbers."""

    __slots__ = ("profile",)
    profile: Profile


class TIDSProfiler(FlopsProfiler):
    """A FlopsProfiler that prints every module's shapes and time.

    `model`, `ds_engine` and `recompute_fwd_factor` are those of `FlopsProfiler`.
    """

    format = "tids"

    def generate_profile(self) -> TIDSProfile:
        """The module tree as text. Profiling need not be stopped for it."""
        profile = self.profile
        text = TIDSProfile(profile.render("tids").rstrip("\n"))
        text.profile = profile
        return text

    def print_model_profile(
        self,
        profile_step: int = 1,  # noqa: ARG002
        module_depth: int = -1,
        top_modules: int = 1,
        detailed: bool = True,
        output_file: str | Path | None = None,
    ) -> None:
        """Print the module tree with shapes down to `module_depth`, or write it to `output_file`; without `detailed`, its first level only.

        `profile_step` and `top_modules` are those of `FlopsProfiler` and change nothing here.
        """
        check_page(module_depth, top_modules)
        write(self.profile.render("tids", module_depth=module_depth if detailed else 1), output_file)
