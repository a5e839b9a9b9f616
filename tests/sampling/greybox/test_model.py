from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.sampling.base import AcceptLengthEvidence
from autotune.sampling.greybox.boots import read_boots
from autotune.sampling.greybox.encoding import Encoding
from autotune.sampling.greybox.model import SpeedModel, fit_speeds
from tests.sampling.greybox.small_surface import SPACE, Server, accept_length, log_speeds

ENCODING = Encoding(SPACE)
EVERY = np.arange(len(ENCODING))
TRUTH = np.array([log_speeds(configuration) for configuration in SPACE.configurations])
FEW = ["budget=0", "budget=15,topk=1", "budget=48,topk=4", "budget=4,topk=2"]


def rows(*texts: str) -> np.ndarray:
    return np.array([ENCODING.row(SPACE.parse(text)) for text in texts], dtype=np.intp)


def fit_model(server: Server, evidence: tuple[AcceptLengthEvidence, ...] = ()) -> SpeedModel:
    model = fit_speeds(read_boots(server.history(), ENCODING), evidence, ENCODING)
    assert model is not None
    return model


def booted(texts: list[str], **changes: object) -> Server:
    server = Server(**changes)  # type: ignore[arg-type]
    server.boot_all(texts)
    return server


def told(configurations: tuple[str, ...] | None = None, factor: float = 1.0) -> tuple[AcceptLengthEvidence, ...]:
    chosen = SPACE.configurations if configurations is None else [SPACE.parse(text) for text in configurations]
    return tuple(
        AcceptLengthEvidence(each, factor * accept_length(each), 0.1, "a test")
        for each in chosen
        if each["budget"] != 0 and (configurations is not None or each["window"] is None)
    )


def test_what_was_measured_without_noise_is_met():
    server = booted(FEW)
    known = fit_model(server).forecast(rows(*FEW))

    assert known.mean == pytest.approx(np.array([log_speeds(SPACE.parse(text)) for text in FEW]), abs=0.01)
    assert known.deviation.max() < 0.03


def test_five_boots_tell_the_budgets_between_them():
    model = fit_model(booted(FEW))
    between = rows(*(f"budget={budget},topk=4" for budget in range(4, 49, 4)))

    known = model.forecast(between)

    assert np.abs(known.mean - TRUTH[between]).max() < 0.06
    z = (known.mean - TRUTH[between]) / known.deviation
    assert np.abs(z).max() < 3


def test_the_accept_length_of_plain_decoding_is_1_exactly_and_no_other_exceeds_the_block():
    model = fit_model(booted(FEW))
    known = model.log_accept_length(EVERY)
    assert known is not None
    mean, deviation = known

    assert np.all(mean[ENCODING.is_plain] == 0)
    assert np.all(deviation[ENCODING.is_plain] == 0)
    assert np.all(mean >= 0)
    assert np.all(mean <= math.log(16))


def test_what_is_far_from_every_boot_is_less_sure_than_what_is_near():
    model = fit_model(booted(FEW))

    near, far = model.forecast(rows("budget=15,topk=4", "budget=64,topk=8,window=32")).deviation

    assert np.all(far > 2 * near)


def test_a_server_that_tells_no_accept_length_is_modelled_by_its_speeds():
    server = booted(FEW, tells_accept_length=False)
    model = fit_model(server)

    assert not model.is_taken_apart
    assert model.forecast(rows(*FEW)).mean == pytest.approx(
        np.array([log_speeds(SPACE.parse(text)) for text in FEW]), abs=0.03
    )


def test_a_boot_without_accept_length_still_teaches_its_speed():
    server = booted(FEW)
    server.tells_accept_length = False
    server.boot_all(["budget=32,topk=8"])

    model = fit_model(server)

    assert model.is_taken_apart
    assert model.forecast(rows("budget=32,topk=8")).mean[0] == pytest.approx(
        log_speeds(SPACE.parse("budget=32,topk=8")), abs=0.05
    )


def test_evidence_of_accept_lengths_narrows_what_boots_leave_open():
    server = booted(["budget=0", "budget=48,topk=4"])
    asked = rows("budget=6,topk=2", "budget=24,topk=8")

    without = fit_model(server).forecast(asked)
    with_it = fit_model(server, told()).forecast(asked)

    assert np.all(with_it.deviation < without.deviation)
    assert np.abs(with_it.mean - TRUTH[asked]).mean() < np.abs(without.mean - TRUTH[asked]).mean()


def test_a_common_error_of_the_evidence_is_settled_by_one_boot():
    server = booted(["budget=0", "budget=48,topk=4"])
    asked = rows("budget=6,topk=2", "budget=24,topk=8")

    known = fit_model(server, told(factor=1.1)).log_accept_length(asked)
    assert known is not None

    truth = [math.log(accept_length(SPACE.parse(text))) for text in ("budget=6,topk=2", "budget=24,topk=8")]
    assert known[0] == pytest.approx(truth, abs=0.02)
    assert np.all(known[1] < 0.03)


def test_evidence_says_less_about_a_configuration_that_it_leaves_out():
    server = booted(["budget=0", "budget=48,topk=4"])

    known = fit_model(server, told()).log_accept_length(rows("budget=24,topk=4", "budget=24,topk=4,window=64"))
    assert known is not None

    assert known[1][1] > 2 * known[1][0]


def test_believing_in_a_boot_moves_no_mean_and_makes_it_sure():
    model = fit_model(booted(FEW))
    asked = rows("budget=30,topk=6", "budget=0")

    believing = model.believing(asked)

    assert believing.forecast(asked).mean == pytest.approx(model.forecast(asked).mean, abs=1e-4)
    assert np.all(believing.forecast(asked).deviation[0] < model.forecast(asked).deviation[0])


def test_joint_draws_have_the_mean_and_deviation_of_the_forecast():
    model = fit_model(booted(FEW))
    asked = rows("budget=30,topk=6", "budget=0", "budget=8,topk=2,window=64")

    draws, known = model.draw(asked, 4000, seed=1), model.forecast(asked)

    assert draws.mean(axis=0) == pytest.approx(known.mean, abs=0.02)
    assert draws.std(axis=0) == pytest.approx(known.deviation, rel=0.1, abs=0.002)


def test_noise_between_boots_is_found_from_boots_that_differ():
    quiet, noisy = booted(FEW * 3), booted(FEW * 3, noise=0.05)

    assert fit_model(quiet).noise[0] < 0.015
    assert fit_model(noisy).noise[0] == pytest.approx(0.05, rel=0.5)


def test_nothing_is_known_until_both_speeds_were_measured():
    assert fit_speeds((), (), ENCODING) is None
