"""Limits of what really ran, by the datasheet and arithmetic."""

import pytest
import torch

import flopsight


def test_the_limit_of_plain_code_is_the_sum_over_its_products_each_bound_for_itself():
    n, work, bandwidth = 2048, 66.9e12, 3.35e12
    with flopsight.recording() as seen:
        square, column = torch.empty(n, n, device="meta"), torch.empty(n, 1, device="meta")
        square @ square  # bound by work
        square @ column  # bound by bytes

    by_work, by_bytes = 2 * n**3 / work, 4 * (n * n + 2 * n) / bandwidth
    assert by_work > 4 * 3 * n * n / bandwidth and by_bytes > 2 * n * n / work
    assert seen.profile.limit("h100-sxm") == pytest.approx(by_work + by_bytes)
