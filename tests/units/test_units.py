"""The text of numbers. The older profilers' figures are their own literals, each with the number it came from."""

import pytest

from flopsight import units
from flopsight.errors import InputError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 FLOP"),
        (156, "156 FLOP"),
        (999, "999 FLOP"),
        (999.4, "999 FLOP"),
        (999.6, "1.00 kFLOP"),
        (1000, "1.00 kFLOP"),
        (61_706, "61.7 kFLOP"),
        (1.28e12, "1.28 TFLOP"),
        (3.446e15, "3.45 PFLOP"),
        (9.996e9, "10.0 GFLOP"),
        (-3.2e9, "-3.20 GFLOP"),
        (0.5, "0.500 FLOP"),
    ],
)
def test_our_numbers_have_three_significant_digits(value, text):
    assert units.si(value, "FLOP") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (1.89, "1.89 s"),
        (0.0257, "25.7 ms"),
        (730.75e-6, "731 us"),
        (12e-9, "12.0 ns"),
        (0.9999, "1.00 s"),
        (5000, "5000 s"),
    ],
)
def test_a_time_takes_the_unit_that_suits_it(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0%"), (1, "100%"), (0.325, "32.5%"), (0.0004, "<0.1%"), (0.001, "0.1%"), (1.2, "120.0%")],
)
def test_a_share_that_exists_is_never_shown_as_zero(share, text):
    assert units.percent(share) == text


def test_bytes_counts_rates_and_shapes_have_their_forms():
    assert units.size(46_758_048) == "46.8 MB"
    assert units.count(11_689_512) == "11,689,512"
    assert units.rate(349.1e9) == "349 GFLOP/s"
    assert units.shape((16, 3, 224, 224)) == "16x3x224x224"
    assert units.shape(()) == "scalar"


# LeNet5, batch 1024; BERT-Large; PointNet 32x3x1024; a vision transformer of 16.9 G parameters
OLDER_PARAMS = [
    (61_706, "61.71 k"), (50_692, "50.69 k"), (156, "156"), (0, "0"), (2_416, "2.42 k"), (850, "850"),
    (61_100_840, "61.1 M"), (23_296, "23.3 k"), (336_234_306, "336.23 M"), (109_483_778, "109.48 M"),
    (3_463_763, "3.46 M"), (524_800, "524.8 k"), (513_000, "513.0 k"), (16_900_000_000, "16.9 G"), (1, "1"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), OLDER_PARAMS)
def test_parameters_read_as_in_the_older_profilers(value, text):
    assert units.deepspeed_params(value) == text


OLDER_MACS = [
    (439_559_168, "439.56 MMACs"), (3_139_930_000_000, "3139.93 GMACs"), (41_271_950_000_000, "41271.95 GMACs"),
    (1024 * 84 * 10, "860.16 KMACs"), (0, "0 MACs"), (4 * 768 * 2, "6.14 KMACs"), (14_070_000_000, "14.07 GMACs"),
    (32 * 256 * 9, "73.73 KMACs"), (32 * 1024 * 512, "16.78 MMACs"), (247_398_400, "247.4 MMACs"),
    (32 * 1024 * 3 * 64, "6.29 MMACs"), (43_500_000_000, "43.5 GMACs"), (134_217_728, "134.22 MMACs"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), OLDER_MACS)
def test_macs_read_as_in_the_older_profilers_and_stop_at_giga(value, text):
    assert units.deepspeed_macs(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(6_279_860_000_000, "6279.86 G"), (82_543_900_000_000, "82543.9 G"), (58_180_001_792, "58.18 G"), (29_041_000_000, "29.04 G"), (64, "64"), (0, "0")],
)  # fmt: skip
def test_operations_read_as_in_the_older_profilers_and_stop_at_giga(value, text):
    assert units.deepspeed_flops(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (29_041_633_280 / 83.19e-3, "349.1 GFLOPS"), (102.004e12, "102.0 TFLOPS"), (0.0, "0.0 FLOPS"), (0, "0.0 FLOPS"),
        (2 * 860_160 / 2.80356e-3, "613.62 MFLOPS"), (1310.14e12, "1310.14 TFLOPS"), (116.274e12, "116.27 TFLOPS"), (42.5e3, "42.5 KFLOPS"),
    ],
)  # fmt: skip
def test_rates_read_as_in_the_older_profilers_and_stop_at_tera(value, text):
    assert units.deepspeed_rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(25.7e-3, "25.7 ms"), (730.75e-6, "730.75 us"), (1.89, "1.89 s"), (34.12, "34.12 s"), (2e-3, "2.0 ms"), (34.09e-6, "34.09 us"), (108.02e-3, "108.02 ms"), (0, "0 us")],
)  # fmt: skip
def test_times_read_as_in_the_older_profilers(value, text):
    assert units.deepspeed_time(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(860.07e12, "", "860.07 T"), (1720.6e12, "", "1720.6 T"), (49.04e9, "", "49.04 G"), (49.04e9, "B", "49.04 GB"), (1296.58e12, "", "1296.58 T"), (512, "B", "512 B")],
)  # fmt: skip
def test_aprofilers_numbers_go_up_to_tera(value, unit, text):
    assert units.deepspeed_large(value, unit) == text


def test_the_older_profilers_share_has_two_decimals_and_nothing_of_nothing_is_zero():
    assert units.deepspeed_percent(50_692, 61_706) == "82.15%"
    assert units.deepspeed_percent(0, 0) == "0.00%"
    assert units.deepspeed_percent(3, 3) == "100.00%"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("26M", 26_000_000), ("8.2G", 8_200_000_000), ("8.2 GFLOPs", 8_200_000_000), ("16 GiB", 16 * 1024**3), ("16GB", 16e9), ("7B", 7e9),
        ("512", 512), ("512 bytes", 512), ("1e9", 1e9), ("61_706", 61_706), ("61,706", 61_706), ("2KiB", 2048), (26_000_000, 26_000_000), ("1.5k", 1500),
    ],
)  # fmt: skip
def test_a_quantity_is_read_with_its_suffix(text, value):
    assert units.parse_quantity(text) == value


def test_times_and_shares_are_read_with_their_units():
    assert units.parse_time("25ms") == 0.025
    assert units.parse_time("1.5 s") == 1.5
    assert units.parse_time(2) == 2
    assert units.parse_share("10%") == 0.1
    assert units.parse_share("0.1") == 0.1


@pytest.mark.parametrize("parse", [units.parse_quantity, units.parse_time, units.parse_share])
@pytest.mark.parametrize("text", ["", "many", "12 parsecs", "--3"])
def test_what_is_not_a_number_is_named_with_an_example(parse, text):
    with pytest.raises(InputError, match="Write it like"):
        parse(text)
