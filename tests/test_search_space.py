from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.ddtree.tree import DraftTree, best_first_tree, reachable_depth
from autotune.errors import SearchSpaceError
from autotune.packaged import find_packaged
from autotune.search_space import Rendering, SearchSpace, load_search_space, search_space_of
from autotune.search_space_file import parse_search_space_file
from autotune.settings import load_settings
from autotune.trial import Configuration

BEST_FIRST = frozenset({"best-first-tree"})
DDTREE = load_search_space("ddtree", proofs=BEST_FIRST)

STEPS_TOPK_DRAFT = """
name = "eagle"

[parameters.steps]
kind = "int"
low = 1
high = 5
default = 3
flag = "--speculative-num-steps"

[parameters.topk]
kind = "int"
low = 1
high = 4
default = 1
flag = "--speculative-eagle-topk"

[parameters.draft]
kind = "int"
low = 2
high = 64
default = 4
flag = "--speculative-num-draft-tokens"

[[rules]]
require = "topk == 1 or draft <= 1 + topk + (steps - 1) * topk * topk"
because = "a tree offers topk + (steps - 1) * topk * topk candidates, and draft tokens may be at most one more"

[[equivalences]]
name = "a chain has steps + 1 draft tokens"
when = "topk == 1"
set = { draft = "steps + 1" }
proven_by = "adjusts-draft-tokens"
because = "the server logs that draft tokens were adjusted to steps + 1"
"""


def make_space(text: str, *proofs: str) -> SearchSpace:
    return SearchSpace(parse_search_space_file(text, "test.toml"), frozenset(proofs))


def test_defaults_are_filled_in_and_the_word_none_is_none():
    assert DDTREE.resolve({"budget": 9, "window": "none"}) == {"budget": 9, "topk": 4, "window": None}


def test_a_command_line_list_is_read():
    assert DDTREE.parse("budget=16, topk=4 ,window=64") == {"budget": 16, "topk": 4, "window": 64}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget=abc", "budget=abc is not a whole number"),
        ("budget=65", "budget=65 is outside the search space ddtree"),
        ("budget=-1", "0 to 64"),
        ("topk=0", "1 to 8"),
        ("window=65", "one of 32, 64, 128, 256, 512, none"),
        ("budget=none", "budget=none is outside"),
        ("budget=1.5", "budget=1.5 is not a whole number"),
        ("bugdet=4", "did you mean 'budget'"),
        ("budget", "NAME=VALUE"),
        ("budget=", "NAME=VALUE"),
        ("", "NAME=VALUE"),
        ("budget=1,budget=2", "given twice"),
        ("budget=$(reboot)", "not a whole number"),
        ("budget=1_6", "budget=1_6"),
        ("budget=\u0661\u0666", "not a whole number"),
    ],
)
def test_what_is_outside_the_space_is_refused_by_name(text: str, said: str):
    with pytest.raises(SearchSpaceError) as caught:
        DDTREE.parse(text)

    assert said in str(caught.value)


def test_plain_decoding_is_started_without_any_of_the_flags_and_without_an_inherited_variable():
    plain = DDTREE.parse("budget=0,topk=7,window=32")

    assert DDTREE.render_flags(plain) == Rendering((), {"SGLANG_DDTREE_MAX_TOPK": None})
    assert set(DDTREE.reported(plain).values()) == {None}
    assert DDTREE.describe(plain) == "budget=0"
    assert DDTREE.arm(plain) == "plain"


def test_a_tree_reaches_the_server_by_flags_and_by_a_variable():
    tree = DDTREE.parse("budget=16,topk=4,window=64")

    assert DDTREE.render_flags(tree) == Rendering(
        (
            *("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16"),
            *("--speculative-draft-window-size", "64", "--speculative-num-draft-tokens", "16"),
        ),
        {"SGLANG_DDTREE_MAX_TOPK": "4"},
    )
    assert DDTREE.reported(tree) == {
        "speculative_algorithm": "DDTREE",
        "speculative_ddtree_budget": 16,
        "topk": 4,
        "speculative_draft_window_size": 64,
        "speculative_num_draft_tokens": 16,
    }
    assert DDTREE.describe(tree) == "budget=16 topk=4 window=64"
    assert DDTREE.arm(tree) == "tree"


def test_full_context_is_the_absence_of_the_window_flag():
    rendering = DDTREE.render_flags(DDTREE.parse("budget=16,window=none"))

    assert "--speculative-draft-window-size" not in rendering.arguments


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("budget=0,topk=7,window=32", "budget=0"),
        ("budget=64,topk=1", "budget=15,topk=1"),
        ("budget=16,topk=1,window=64", "budget=15,topk=1,window=64"),
        ("budget=3,topk=8", "budget=3,topk=3"),
        ("budget=1,topk=8", "budget=1,topk=1"),
    ],
)
def test_the_same_tree_has_one_spelling(text: str, same: str):
    assert DDTREE.parse(text) == DDTREE.parse(same)


def test_without_the_servers_proof_only_equal_flags_are_merged():
    unproven = load_search_space("ddtree")

    assert unproven.parse("budget=64,topk=1")["budget"] == 64
    assert unproven.parse("budget=3,topk=8")["topk"] == 8
    assert unproven.parse("budget=0,topk=7") == unproven.parse("budget=0,topk=1")
    assert unproven.size > DDTREE.size


def test_a_window_smaller_than_the_block_is_refused_with_the_rule():
    text = Path(find_packaged("search_spaces", "ddtree.toml") or "").read_text()
    space = make_space(text.replace("value = 16", "value = 48"), *BEST_FIRST)

    with pytest.raises(SearchSpaceError) as caught:
        space.parse("budget=16,window=32")

    assert "window == none or window >= block" in str(caught.value)
    assert "block=48" in str(caught.value)
    assert all(configuration["window"] != 32 for configuration in space.configurations)


def test_three_flags_with_two_degrees_of_freedom():
    """case 34: with topk 1 the draft tokens are derived; a tree that cannot offer enough is refused with the rule."""
    space = make_space(STEPS_TOPK_DRAFT, "adjusts-draft-tokens")
    chains = [space.parse(f"steps=3,topk=1,draft={draft}") for draft in (4, 8, 2)]

    assert chains == [{"steps": 3, "topk": 1, "draft": 4}] * 3
    assert len({space.key(chain) for chain in chains}) == 1
    with pytest.raises(SearchSpaceError) as caught:
        space.parse("steps=1,topk=2,draft=8")
    assert "draft <= 1 + topk + (steps - 1) * topk * topk" in str(caught.value)
    assert "draft tokens may be at most one more" in str(caught.value)


def test_case_34_counts_each_chain_once():
    """case 34: of 5 x 63 chains five are left, and no tree that would be refused is among the configurations."""
    space = make_space(STEPS_TOPK_DRAFT, "adjusts-draft-tokens")
    chains = [item for item in space.configurations if item["topk"] == 1]

    assert [(item["steps"], item["draft"]) for item in chains] == [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]


@given(budget=st.integers(0, 64), topk=st.integers(1, 8), window=st.sampled_from([32, 64, 128, 256, 512, None]))
def test_the_canonical_form_is_stable_inside_the_space_and_starts_the_same_server(budget, topk, window):
    asked = {"budget": budget, "topk": topk, "window": window}
    canonical = DDTREE.canonicalise(asked)

    assert DDTREE.canonicalise(canonical) == canonical
    assert DDTREE.parse(DDTREE.key(asked)) == canonical
    assert DDTREE.parse(DDTREE.key(canonical)) == canonical
    assert canonical in DDTREE.configurations
    assert DDTREE.arm(canonical) == DDTREE.arm(asked) or canonical["budget"] == 1


@given(
    budget=st.integers(1, 64),
    topk=st.integers(1, 8),
    table=st.lists(st.lists(st.floats(-9, -0.01), min_size=8, max_size=8), min_size=7, max_size=7),
)
def test_the_embedded_server_builds_one_tree_for_all_spellings_of_a_configuration(budget, topk, table):
    def build(configuration: Configuration) -> DraftTree:
        nodes, width = configuration["budget"], configuration["topk"]
        assert isinstance(nodes, int)
        assert isinstance(width, int)
        ranked = [sorted(position, reverse=True)[:width] for position in table]
        return best_first_tree(ranked[: reachable_depth(nodes, block=8)], nodes)

    asked: Configuration = {"budget": budget, "topk": topk, "window": None}

    assert build(asked) == build(DDTREE.canonicalise(asked))


def test_every_configuration_is_listed_once_and_is_canonical():
    keys = [DDTREE.key(configuration) for configuration in DDTREE.configurations]

    assert len(keys) == len(set(keys)) == DDTREE.size
    assert all(DDTREE.canonicalise(configuration) == configuration for configuration in DDTREE.configurations)
    assert {DDTREE.arm(configuration) for configuration in DDTREE.configurations} == {"plain", "chain", "tree"}


def test_configurations_with_different_keys_start_different_servers():
    started = {repr(DDTREE.render_flags(configuration)) for configuration in DDTREE.configurations}

    assert len(started) == DDTREE.size


def test_the_fingerprint_changes_with_a_flag_and_not_with_a_comment():
    text = Path(find_packaged("search_spaces", "ddtree.toml") or "").read_text()

    assert make_space(text + "\n# more words\n").fingerprint == make_space(text).fingerprint
    assert make_space(text.replace("value = 16", "value = 8")).fingerprint != make_space(text).fingerprint


SECOND = '[parameters.b]\nkind = "int"\nlow = 0\nhigh = 1\ndefault = 0\nflag = "--b"\n'
PARAMETER = 'name = "x"\n[parameters.a]\nkind = "int"\nlow = 1\nhigh = 3\ndefault = 2\nflag = "--a"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PARAMETER + "hihg = 3\n", "hihg"),
        (PARAMETER.replace("default = 2", "default = 9"), "default 9 is not one of 1 to 3"),
        (PARAMETER.replace('"--a"', '"--a; reboot"'), "flag"),
        (PARAMETER.replace('flag = "--a"\n', ""), "exactly one of flag and environment"),
        (PARAMETER + 'environment = "A"\n', "exactly one of flag and environment"),
        (PARAMETER + 'needs = "b"\n', "needs 'b'"),
        (PARAMETER + '[[rules]]\nrequire = "b > 1"\nbecause = ""\n', "'b > 1' speaks of 'b'"),
        (PARAMETER + '[[rules]]\nrequire = "a >"\nbecause = ""\n', "not an expression"),
        (PARAMETER + '[derived.a]\nvalue = 1\nflag = "--b"\n', "a is taken twice"),
        (PARAMETER.replace("parameters.a", "parameters.none"), "none is taken twice"),
        (PARAMETER.replace("high = 3", "high = 300000"), "300000 points"),
        (PARAMETER.replace('kind = "int"', 'kind = "integer"'), "kind"),
        (PARAMETER.replace("high = 3", f"high = 1{'0' * 30}"), "points"),
        (PARAMETER + "omit = 99\n", "omit 99 is not one of 1 to 3"),
        (PARAMETER + 'needs = "a"\n', "a needs a: a circle"),
        (PARAMETER + 'needs = "b"\n' + SECOND + 'needs = "a"\n', "a needs b needs a: a circle"),
        (PARAMETER + SECOND.replace("--b", "--a"), "a and b both write --a"),
        (PARAMETER + '[derived.d]\nvalue = 1\nflag = "--a"\n', "a and d both write --a"),
        (PARAMETER + '[derived.d]\nvalue = "d + 1"\nflag = "--d"\n', "d speaks of d, which is not known before it"),
        (
            PARAMETER + '[derived.d]\nvalue = "e + 1"\nflag = "--d"\n[derived.e]\nvalue = 1\nflag = "--e"\n',
            "d speaks of e, which is not known before it",
        ),
        (
            PARAMETER + '[[rules]]\nrequire = "a > 2"\nbecause = ""\n[[rules]]\nrequire = "a < 2"\nbecause = ""\n',
            "leave no",
        ),
        (
            'name = "x"\n[parameters.a]\nkind = "choice"\nchoices = [1, "1"]\ndefault = 1\nflag = "--a"\n',
            "without quotes",
        ),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("name = 3", "name"),
        ("name =", "not valid TOML"),
        ('name = "x"\n[parameters]\n', "at least 1"),
    ],
)
def test_a_wrong_file_is_refused_when_it_is_read(text: str, said: str):
    with pytest.raises(SearchSpaceError) as caught:
        make_space(text)

    assert said in str(caught.value)


def test_equivalences_that_undo_each_other_are_an_error_and_not_a_loop():
    flip = '[[equivalences]]\nname = "n"\nwhen = "a != 2"\nset = { a = "4 - a" }\nproven_by = "p"\nbecause = ""\n'

    with pytest.raises(SearchSpaceError, match="never come to rest"):
        make_space(PARAMETER + flip, "p").parse("a=1")


def test_a_space_that_is_not_there_says_so():
    with pytest.raises(SearchSpaceError, match="no search space 'nothing'"):
        load_search_space("nothing")
    with pytest.raises(SearchSpaceError, match="no search space"):
        load_search_space("/nowhere/nothing.toml")


def test_the_default_study_names_a_space_its_server_and_configurations_inside_it():
    settings = load_settings(find_packaged("studies", "embedded.toml") or Path())
    space = search_space_of(settings)

    assert space.proofs == BEST_FIRST
    assert [space.arm(space.resolve(values)) for values in settings.try_] == ["plain", "chain"]
    assert space.resolve(settings.baseline) in space.configurations


def test_an_unknown_search_space_names_the_nearest():
    with pytest.raises(SearchSpaceError, match="did you mean 'ddtree'"):
        load_search_space("dtree")


@pytest.mark.parametrize(
    ("rule", "target", "said"),
    [("a > 0", 9, "a=9 is outside the search space"), ("a != 3", 3, "breaks the rule 'a != 3'")],
)
def test_an_equivalence_that_leads_out_of_the_space_is_refused_when_it_is_read(rule: str, target: int, said: str):
    text = (
        f'{PARAMETER}[[rules]]\nrequire = "{rule}"\nbecause = ""\n[[equivalences]]\nname = "n"\nwhen = "a == 1"\n'
        f'set = {{ a = {target} }}\nproven_by = "p"\nbecause = ""\n'
    )

    with pytest.raises(SearchSpaceError) as caught:
        make_space(text, "p")

    assert f"a=1 becomes a={target}" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["window", "budget"])
def test_a_number_in_quotes_is_refused_as_the_text_that_it_is(name: str):
    with pytest.raises(SearchSpaceError) as caught:
        DDTREE.resolve({name: "64"})

    assert str(caught.value) == f'{name}="64" is a text, not the number 64 (write {name} = 64, without quotes)'


def test_other_spellings_of_a_flag_are_taken_out_and_never_written():
    space = load_search_space("ddtree_sglang")

    assert space.tuned_flags["--speculative-dflash-draft-window-size"] is True
    written = {word for item in space.configurations for word in space.render_flags(item).arguments}
    assert "--speculative-dflash-draft-window-size" not in written


def test_a_variable_that_is_not_needed_is_not_compared():
    space = load_search_space("ddtree_sglang")

    assert "topk" not in space.reported(space.resolve({"budget": 0}))
    assert space.reported(space.resolve({"budget": 16, "topk": 4}))["topk"] == 4


@pytest.mark.parametrize(
    "change",
    [
        'also_spelled = ["--budget"]\nenvironment = "BUDGET"',
        'flag = "--one"\nalso_spelled = ["--two"]',
    ],
)
def test_other_spellings_need_a_flag_and_belong_to_one_parameter(change):
    text = f"""
name = "small"
[parameters.budget]
kind = "int"
low = 0
high = 1
default = 0
{change}
[parameters.other]
kind = "int"
low = 0
high = 1
default = 0
flag = "--two"
"""
    with pytest.raises(SearchSpaceError, match=r"also_spelled needs a flag|both write --two"):
        make_space(text)
