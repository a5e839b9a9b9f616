from __future__ import annotations

import pytest

from autotune.api_key import ApiKey, read_api_key
from autotune.errors import SettingsError


def test_the_key_is_read_from_the_variable_that_is_named():
    key = read_api_key("THE_KEY", {"THE_KEY": " sk-hidden\n", "OTHER": "x"})

    assert key is not None
    assert dict(key.headers) == {"authorization": "Bearer sk-hidden"}


def test_no_variable_means_no_key():
    assert read_api_key(None, {"THE_KEY": "x"}) is None


@pytest.mark.parametrize("environment", [{}, {"THE_KEY": ""}, {"THE_KEY": "  "}])
def test_a_variable_that_is_not_set_is_named(environment: dict[str, str]):
    with pytest.raises(SettingsError, match="THE_KEY is not set"):
        read_api_key("THE_KEY", environment)


@pytest.mark.parametrize("value", ["sk-a b", "sk-é", "sk-a\r\nx: y", "sk-\0"])
def test_what_no_header_can_carry_is_refused_without_being_shown(value: str):
    with pytest.raises(SettingsError) as refused:
        read_api_key("THE_KEY", {"THE_KEY": value})

    assert "sk-" not in str(refused.value)


def test_a_key_shows_nowhere():
    key = ApiKey("sk-hidden")

    assert "hidden" not in f"{key} {key!r} {[key]}"
    assert key.redact("refused sk-hidden: sk-hidden") == "refused [API key]: [API key]"
