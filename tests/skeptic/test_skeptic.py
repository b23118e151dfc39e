"""Questions drawn from a seed: each answer is right, or refused, or warns of its error.

SKEPTIC_SEED and SKEPTIC_COUNT select other questions.
"""

import os
import random
import re
from collections import Counter, defaultdict

import pytest
from situations import UNTROUBLED
from troubled import TROUBLED

from spillcast.errors import InputError, Refusal
from spillcast.forecast.ask import ask

SEED = int(os.environ.get("SKEPTIC_SEED", 20))
COUNT = int(os.environ.get("SKEPTIC_COUNT", 200))
#: A refusal because of a too wide interval names no cause.
TOO_WIDE = "shows only"
#: A 90 % interval misses one in ten, and somewhat more with few questions.
MISSED_MAX = 0.2


def outcome(situation):
    """right, refused, warned, missed (by less than two half-widths) or wrong; and the reason."""
    try:
        [(answer, _)] = ask(situation.evidence, [situation.target], situation.question)
    except (InputError, Refusal) as error:
        return _refused(situation, f"{error} {getattr(error, 'hint', '')}")
    if answer.forecast_s is None:
        return _refused(situation, answer.refused)
    codes = {warning.code for warning in answer.warnings}
    low_s, high_s = answer.interval_s
    reported = (
        f"{answer.forecast_s:.3f} s ({low_s:.3f} to {high_s:.3f}), in truth {situation.truth_s}, "
        f"warnings {sorted(codes)}, instead of {answer.baseline_s:.3f}"
    )
    if situation.truth_s is not None:
        if low_s <= situation.truth_s <= high_s:
            return "right", reported
        floor_s = answer.ceiling_interval_s and answer.ceiling_interval_s[0]
        if floor_s and not situation.troubled and situation.truth_s < floor_s:
            return "wrong", f"below what no storage can beat, {floor_s}: {reported}"
    if codes & situation.causes:
        return "warned", reported
    if situation.truth_s is None:
        return "wrong", reported
    missed = abs(situation.truth_s - answer.forecast_s) / ((high_s - low_s) / 2)
    return ("missed" if missed <= 2 and not situation.troubled else "wrong"), reported


def _refused(situation, text):
    named = re.search(situation.says, text) or TOO_WIDE in text
    return ("refused" if named else "wrong"), text


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """By troubled or not: (question, outcome, reason)."""
    draws, all_found = random.Random(SEED), defaultdict(list)
    for number in range(COUNT):
        kinds = UNTROUBLED if number % 2 else TROUBLED
        kind = kinds[number // 2 % len(kinds)]
        private = random.Random(draws.getrandbits(64))
        situation = kind(tmp_path_factory.mktemp("asked"), private)
        all_found[situation.troubled].append((situation.name, *outcome(situation)))
    return all_found


def _wrong(result):
    return "\n".join(f"{name}: {why}" for name, subject, why in result if subject == "wrong")


def test_no_answer_is_wrong_without_a_warning(result):
    for troubled, answers in sorted(result.items()):
        counts = Counter(subject for _, subject, _ in answers)
        print("with something planted:" if troubled else "undisturbed:", dict(counts))
    assert not _wrong([*result[False], *result[True]])


def test_undisturbed_questions_are_answered_within_the_interval(result):
    counts = Counter(subject for _, subject, _ in result[False])
    whole = sum(counts.values())
    assert counts["right"] >= whole / 2
    assert counts["missed"] <= MISSED_MAX * whole
