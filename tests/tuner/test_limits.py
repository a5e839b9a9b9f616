from __future__ import annotations

from datetime import UTC, datetime, timedelta

from autotune.tuner.limits import Limits

NOW = datetime(2026, 1, 1, 22, 0, tzinfo=UTC)


def test_without_a_time_limit_no_time_is_left_or_lacking():
    assert Limits(trials=3).left_s(100, NOW) is None


def test_the_nearer_of_two_time_limits_counts():
    limits = Limits(duration_s=600, until=NOW + timedelta(seconds=300))

    assert limits.left_s(100, NOW) == 300
    assert limits.left_s(400, NOW) == 200


def test_a_moment_without_a_zone_is_local():
    naive = (NOW + timedelta(hours=1)).astimezone().replace(tzinfo=None)

    assert Limits(until=naive).left_s(0, NOW) == 3600


def test_trials_are_counted_out_when_all_have_ended():
    assert not Limits(trials=3).is_counted_out(2)
    assert Limits(trials=3).is_counted_out(3)
    assert Limits(trials=0).is_counted_out(0)
    assert not Limits().is_counted_out(1000)
