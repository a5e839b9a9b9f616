from __future__ import annotations

import asyncio
import json

import pytest

from autotune.benchmark.api_fields import CANDIDATES, ApiFields, choose_fields
from autotune.benchmark.client import render_request
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.settings import SamplingSettings


def record(error: str | None) -> RequestRecord:
    return RequestRecord("p", 0, 1, 0.0, 1.0, Outcome.OK if error is None else Outcome.FAILED, error=error)


def choose(errors: dict[ApiFields, str | None]) -> tuple[ApiFields, list[ApiFields]]:
    asked: list[ApiFields] = []

    async def ask(fields: ApiFields) -> RequestRecord:
        asked.append(fields)
        return record(errors.get(fields))

    return asyncio.run(choose_fields(ask))[0], asked


def test_a_server_that_takes_everything_is_asked_once():
    assert choose({}) == (CANDIDATES[0], [CANDIDATES[0]])


@pytest.mark.parametrize("error", ["HTTP 400: Unrecognized request argument supplied: top_k", "HTTP 422: extra fields"])
def test_what_is_refused_is_left_out(error: str):
    assert choose({CANDIDATES[0]: error})[0] == ApiFields(extensions=False)
    assert choose({CANDIDATES[0]: error, CANDIDATES[1]: error})[0] == CANDIDATES[2]


@pytest.mark.parametrize("error", ["HTTP 401: no key", "HTTP 500: broken", "ConnectError: refused"])
def test_another_failure_is_no_refusal_of_fields(error: str):
    fields, asked = choose(dict.fromkeys(CANDIDATES, error))

    assert (fields, asked) == (CANDIDATES[0], [CANDIDATES[0]])


@pytest.mark.parametrize("fields", CANDIDATES)
def test_requests_hold_only_the_fields_that_are_taken(fields: ApiFields):
    """case 27."""
    request = render_request(
        prompt_id="p",
        repeat=0,
        model="m",
        messages=(("user", "hi"),),
        sampling=SamplingSettings(temperature=0.5, thinking=False),
        seed=7,
        max_tokens=9,
        ignore_eos=True,
        fields=fields,
    )
    body = json.loads(request.body)

    assert body[fields.limit] == 9
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 1.0, 7)
    assert ("top_k" in body, "ignore_eos" in body, "chat_template_kwargs" in body) == (fields.extensions,) * 3
    assert body["stream_options"]["include_usage"] is True
    assert ("continuous_usage_stats" in body["stream_options"]) is fields.extensions
