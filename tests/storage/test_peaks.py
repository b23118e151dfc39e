"""Detected peaks of a histogram are the real ones, however few operations show them."""

from itertools import product

import numpy as np
import pytest

from cases import cases
from spillcast.storage.description import find_peaks, peaks_text, plausible_cause

SEEDS = 100


def peaks_of(samples_s):
    ns, count = np.unique(np.round(np.asarray(samples_s) * 1e9).astype(int), return_counts=True)
    return find_peaks(ns.tolist(), count.tolist())


def body_and_spike(seed, share, count, spread=0.2, low_s=600e-6, high_s=1e-3):
    rng = np.random.default_rng(seed)
    slow = round(count * share)
    fast_s = 150e-6 * rng.lognormal(0, spread, count - slow)
    return np.concatenate([fast_s, rng.uniform(low_s, high_s, slow)])


@cases(("spread", "count"), product([0.02, 0.1, 0.3, 0.6, 1.0], [500, 20_000]))
@pytest.mark.nightly
def test_a_lognormal_has_one_peak(spread, count):
    matches = [
        len(peaks_of(150e-6 * np.random.default_rng(seed).lognormal(0, spread, count)))
        for seed in range(SEEDS)
    ]
    assert matches.count(1) >= 0.99 * SEEDS


@cases(("spread", "share"), product([0.1, 0.2, 0.3], [0.02, 0.05]))
def test_a_spike_of_few_slow_operations_is_a_second_peak(spread, share):
    matches = [len(peaks_of(body_and_spike(seed, share, 1000, spread))) for seed in range(SEEDS)]
    assert matches.count(2) >= 0.99 * SEEDS


def test_the_position_and_share_of_peaks():
    body, spike = peaks_of(body_and_spike(1, 0.06, 10_000))
    assert (body.share, spike.share) == (pytest.approx(0.94), pytest.approx(0.06))
    assert body.mode_s == pytest.approx(150e-6, rel=0.1)
    # 5 and 95 % of a lognormal of spread 0.2 lie 1.645 standard deviations from its median.
    assert body.low_s == pytest.approx(150e-6 * np.exp(-1.645 * 0.2), rel=0.03)
    assert body.high_s == pytest.approx(150e-6 * np.exp(1.645 * 0.2), rel=0.03)
    # The same for values spread evenly from 600 to 1000 us.
    assert spike.low_s == pytest.approx(620e-6, rel=0.03)
    assert spike.high_s == pytest.approx(980e-6, rel=0.03)
    assert 600e-6 < spike.mode_s < 1000e-6


def test_the_order_of_the_buckets_and_their_scale_do_not_matter():
    ns, count = np.unique(
        np.round(body_and_spike(2, 0.05, 5000) * 1e9).astype(int), return_counts=True
    )
    order = np.random.default_rng(3).permutation(len(ns))
    assert find_peaks(ns[order].tolist(), count[order].tolist()) == find_peaks(ns, count)
    assert [p.share for p in find_peaks(ns, 7 * count)] == [p.share for p in find_peaks(ns, count)]


def test_a_few_outliers_are_not_a_peak():
    samples_s = np.concatenate([body_and_spike(1, 0.0, 10_000), np.full(30, 50e-3)])
    assert len(peaks_of(samples_s)) == 1


def test_three_separate_peaks_are_found():
    rng = np.random.default_rng(1)
    samples_s = np.concatenate(
        [at_s * rng.lognormal(0, 0.15, n) for at_s, n in ((3e-6, 700), (100e-6, 250), (8e-3, 50))]
    )
    assert [round(peak.share, 2) for peak in peaks_of(samples_s)] == [0.70, 0.25, 0.05]


@cases(("ns", "count"), [([300_000], [9]), ([300_000], [1]), ([0], [5])])
def test_a_single_bucket_is_one_peak(ns, count):
    (peak,) = find_peaks(ns, count)
    assert peak.share == 1
    assert peak.low_s == peak.high_s == max(ns[0], 1) / 1e9


def test_an_empty_histogram_has_no_peaks():
    assert find_peaks([], []) == []
    assert find_peaks([100], [0]) == []


def test_peaks_are_described_in_words():
    assert peaks_text(peaks_of(body_and_spike(1, 0.06, 10_000))) == (
        "94 % around 150 us, 6 % between 600 us and 1 ms"
    )
    assert peaks_text(find_peaks([300_000], [9])) == "all around 300 us"
    alone = peaks_text(peaks_of(body_and_spike(1, 0.0, 10_000)))
    assert alone == "around 150 us, 90 % between 110 us and 210 us"


@cases(
    ("at_s", "access", "words"),
    [
        ((150e-6, 800e-6), "direct", "garbage collection"),
        ((8e-6,), "buffered", "the page cache"),
        ((8e-6,), "direct", "a cache of the device"),
        ((8e-6, 150e-6), "buffered", "above, a device"),
        ((150e-6,), "buffered", None),
        ((150e-6, 300e-6), "buffered", None),
    ],
)
def test_causes_are_suggested_and_not_asserted(at_s, access, words):
    peaks = find_peaks([round(s * 1e9) for s in at_s], [900, 60][: len(at_s)])
    assert len(peaks) == len(at_s)
    cause = plausible_cause(peaks, access)
    if words is None:
        assert cause is None
    else:
        assert words in cause
        assert "may be" in cause or "probably" in cause
        assert cause.count(".") == 1
