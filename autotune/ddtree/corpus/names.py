"""Which names functions, parameters and local variables of the corpus may take."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SLOTS = ("$a", "$b", "$c", "$d")

PARAMETER_NAMES: dict[str, tuple[str, ...]] = {
    "L": _words(
        "items values nums data arr numbers seq xs elements lst entries array things series samples scores prices list1 "
        "input_list ages readings points tokens words_list ys"
    ),
    "S": _words(
        "text s word string line sentence phrase content message txt st title raw name source input_str str1 letters body "
        "label first second left_text"
    ),
    "N": _words("n num number k m x limit size count i_value start length index steps y amount integer z pos"),
    "F": _words("x value amount v a t p q y z price height width level u w number r1 base top"),
    "D": _words("mapping d table counts info record dct data lookup scores stock graph entries ages pairs obj"),
    "M": _words("matrix grid rows mat m table board cells data values mx array lines"),
}
"""Names a parameter may take, by its kind: list, string, integer, number, dictionary, matrix."""

LOCALS: dict[str, tuple[str, ...]] = {
    "$r": ("result", "res", "out", "acc", "answer"),
    "$i": ("i", "j", "idx"),
    "$v": ("item", "val", "e", "cur"),
    "$c": ("ch", "c", "char", "letter"),
    "$t": ("total", "sum_", "tally", "agg"),
}

NAME_PREFIXES = ("my_", "calc_", "do_", "get_", "util_", "helper_", "compute_", "find_", "make_", "new_")
NAME_SUFFIXES = ("_v2", "_fn", "_py", "_simple", "_impl", "_fast", "_of", "_value", "_task", "_2")
PARAMETER_PREFIXES = ("input_", "raw_", "my_", "given_", "all_", "old_", "the_", "base_")
GENERIC_NAMES = _words(
    "solve solution process compute run_task func transform calculate handle task f answer evaluate work do_it "
    "check apply convert build make"
)


NOUNS = _words(
    "apple author average bag balance bars basket batch bits block book bottle box branch bridge brush bucket cards "
    "cart cells chain chapter cities city coins colors column cost country crew cups cycle day deck degree delta "
    "depth digits dish distance dogs door edge email ends entry error event events factor field file files first "
    "fish flag flags floor flowers foods frame friends fruits games gap goal grades group guests hand head heights "
    "house ids image initial inner inventory island items_in jobs key kind lamp last layer left length_a letter "
    "level likes limits links load log lower lyrics mail marks mask members menu message_a minutes money month "
    "name_a names nodes note notes number_a old one order orders other outer owner pages parts password path "
    "people phone pieces pixels place plan players pool position price probe products quantity query question rain "
    "range_a rate ratio record_a report right river road room root round_a rows_a sales sample scale school seats "
    "second_a seed sentence_a shape shift_a shop shown side signal size_a song songs speed staff stars start_a "
    "step stock_a stop street students sugar tags target task_a tasks temperature temps term tests ticket times "
    "title_a tools top towns tracks trees trips turn two unit upper user users value_a visits votes water weeks "
    "weights width_a window wins words_a work years zone"
)
"""Names that say nothing about the kind of a parameter: the model must copy whatever name it is given."""

FILLER_WORDS = frozenset(
    _words(
        "the and that this with from for its are has have one into without returns return gives computes finds "
        "when than each every all them they"
    )
)
