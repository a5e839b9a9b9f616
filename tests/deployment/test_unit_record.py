"""The record of a service: written, read, refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment.unit_record import UnitRecord, load_record, parse_record, render_record, save_record
from autotune.errors import HostError
from autotune.servers.base import LaunchSpec

RECORD = UnitRecord(
    host="root@gpu1",
    machine="b00t",
    unit="sglang-ddtree.service",
    study="/studies/kimi",
    token="t0ken",
    was_up=True,
    made_folder=True,
    baselines=("aa", "bb"),
    is_stopped=True,
    drop_in="[Service]\nRestart=no\n",
    launch=LaunchSpec(("python3", "é"), {"TOPK": "4", "GONE": None}, ("--budget", "8"), loads_hook=True),
    invocation="cc",
    before="bb",
    host_id="1d",
    dependants=("router.service", "gpu@0.service"),
    has_hook=True,
)


def test_a_record_is_read_back_as_it_was(tmp_path: Path):
    save_record(tmp_path / "study" / "host.json", RECORD)

    assert load_record(tmp_path / "study" / "host.json") == RECORD
    assert (tmp_path / "study" / "host.json").stat().st_mode & 0o777 == 0o600
    assert load_record(tmp_path / "absent.json") is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version": 1, "machine": "x", "found": null}', b"\xff"])
def test_what_is_no_record_of_a_service_is_said(data):
    with pytest.raises(HostError, match="cannot be read"):
        parse_record(data, "host.json")


def test_a_record_of_another_version_is_not_guessed_at():
    with pytest.raises(HostError, match="version 2"):
        parse_record(render_record(RECORD).replace(b'"version": 1', b'"version": 2'), "host.json")


def test_a_record_of_an_earlier_version_names_neither_machine_nor_other_units():
    usual = LaunchSpec(("python3",), {}, ())
    plain = replace(RECORD, host_id="", dependants=(), has_hook=False, launch=usual)
    data = render_record(plain).replace(b',\n "host_id": ""', b"").replace(b',\n "dependants": []', b"")
    data = data.replace(b',\n "has_hook": false', b"").replace(b',\n  "loads_hook": false', b"")

    assert b"host_id" not in data
    assert b"dependants" not in data
    assert b"hook" not in data
    assert parse_record(data, "host.json") == plain


def test_the_hosts_own_restore_gets_lines():
    assert RECORD.facts() == (
        b"unit=sglang-ddtree.service\n"
        b"was_up=yes\n"
        b"made_folder=yes\n"
        b"drop_in=/run/systemd/system/sglang-ddtree.service.d/zzz-autotune-trial.conf\n"
        b"invocations=aa bb\n"
        b"dependants=router.service gpu@0.service\n"
    )
