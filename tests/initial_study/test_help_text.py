from __future__ import annotations

import argparse

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from autotune.cli import main
from autotune.ddtree.flags import FLAGS
from autotune.initial_study.help_text import parse_help

WORDS = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P"], exclude_characters="%"), min_size=1, max_size=20
)


def make_parser(formatter: type[argparse.HelpFormatter] = argparse.HelpFormatter) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog="launch_server", formatter_class=formatter)


def test_every_flag_of_the_embedded_server_is_found_in_its_help():
    flags = parse_help(CliRunner().invoke(main, ["serve", "--help"]).output)

    for flag in FLAGS:
        for name in flag.names:
            assert flags[name].names == flag.names
            assert flags[name].choices == flag.choices
    assert flags["--speculative-ddtree-budget"].metavar == "INTEGER"
    assert flags["--enable-metrics"].metavar is None


def test_choices_defaults_groups_and_long_names_of_argparse_are_read():
    parser = make_parser(argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--speculative-algorithm", choices=["EAGLE", "DFLASH", "DDTREE"], help="The algorithm.")
    parser.add_argument("--page-size", "-p", type=int, default=1, help="Tokens per page.")
    parser.add_argument(
        "--a-name-so-long-that-its-description-starts-on-a-line-of-its-own", help="See --other for more."
    )
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument_group("More").add_argument("--fast", action="store_true")

    flags = parse_help(parser.format_help())

    assert flags["--speculative-algorithm"].choices == ("EAGLE", "DFLASH", "DDTREE")
    assert flags["--page-size"] is flags["-p"]
    assert (flags["--page-size"].metavar, flags["--page-size"].default) == ("PAGE_SIZE", "1")
    assert flags["--sizes"].metavar == "SIZES"
    assert flags["--fast"].metavar is None
    assert "--other" not in flags
    assert flags["--a-name-so-long-that-its-description-starts-on-a-line-of-its-own"].help.startswith("See --other")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).filter(lambda name: name != "help"),
        st.tuples(st.sampled_from(["value", "switch", "choice"]), st.lists(WORDS, max_size=12)),
        min_size=1,
        max_size=6,
    )
)
def test_a_flag_is_found_exactly_when_argparse_takes_it(wanted):
    """Descriptions may hold anything, flags and braces among them."""
    parser = make_parser()
    for name, (kind, words) in wanted.items():
        text = " ".join(words)
        if kind == "switch":
            parser.add_argument(f"--{name}", action="store_true", help=text)
        else:
            parser.add_argument(f"--{name}", choices=["ONE", "TWO"] if kind == "choice" else None, help=text)

    flags = parse_help(parser.format_help())

    assert {name for name in flags if name.startswith("--")} == {"--help", *(f"--{name}" for name in wanted)}
    for name, (kind, _) in wanted.items():
        assert flags[f"--{name}"].choices == (("ONE", "TWO") if kind == "choice" else ())
        assert (flags[f"--{name}"].metavar is not None) == (kind == "value")


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):\n  File x\nImportError: no GPU\n"])
def test_what_is_no_help_has_no_flags(text):
    assert parse_help(text) == {}


def test_colours_are_no_part_of_a_flag():
    assert list(parse_help("options:\n  \x1b[36m--page-size\x1b[0m \x1b[33mN\x1b[0m  Tokens.\n")) == ["--page-size"]


def test_a_flag_with_an_empty_list_of_choices_has_none():
    assert parse_help("  --f{}")["--f"].choices == ()
