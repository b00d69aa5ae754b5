from benchmarks.parsing import parse_with_grammar
from benchmarks.pcfg import Grammar, rules, shape
from keras_transformer.trees import Tree, parse_tree

TREES = [
    parse_tree("(S (NP (N we)) (VP (V saw) (NP (D a) (N dog)) (PP (P with) (NP (N cups)))))"),
    parse_tree("(S (NP (N we)) (VP (V saw) (NP (NP (D a) (N dog)))))"),
    parse_tree("(S (NP (N we)) (VP (V saw) (NP (N dog))))"),
]


def test_the_rules_of_a_tree_know_ancestors_and_the_children_before_them():
    tree = parse_tree("(S (NP (N we)) (VP (V saw) (NP (N dog)) (PP (P at)) (ADVP (R now))))")
    expected = [
        ("S", ("NP^S", "VP^S")),
        ("NP^S", ("/N",)),
        ("VP^S", ("/V", "VP^S|V")),
        ("VP^S|V", ("NP^VP", "VP^S|NP")),
        ("VP^S|NP", ("PP^VP", "ADVP^VP")),
        ("NP^VP", ("/N",)),
        ("PP^VP", ("/P",)),
        ("ADVP^VP", ("/R",)),
    ]
    assert list(rules(tree, 2, 1)) == expected
    plain = dict(rules(tree, 1, 0))
    assert plain["VP"] == ("/V", "VP|") and plain["VP|"] == ("PP", "ADVP")
    names = [parent for parent, _ in rules(tree, 3, 2)]
    assert names[2:5] == ["VP^S", "VP^S|V", "VP^S|V NP"] and "NP^VP^S" in names


def test_the_most_probable_tree_is_found():
    to_vp = "(S (NP (N a)) (VP (V b) (NP (N c)) (PP (P d) (NP (N e)))))"
    to_np = "(S (NP (N a)) (VP (V b) (NP (NP (N c)) (PP (P d) (NP (N e))))))"

    def best(*texts):
        grammar = Grammar([parse_tree(text) for text in texts], 1, 1)
        return str(grammar.parse(["a", "b", "c", "d", "e"]))

    # VP -> V NP PP has 1/2. VP -> V NP has 1/2 and NP -> NP PP 1/7, of 3 + 4 NPs.
    assert best(to_vp, to_np) == to_vp
    # Now they have 1/10, 9/10, and 9/39 of 3 + 9 * 4 NPs: 0.9 * 0.23 > 0.1.
    assert best(to_vp, *[to_np] * 9) == to_np


def test_a_unary_rule_wins_where_it_is_more_probable():
    # X is A B with 1/4, and Y with 3/4; Y is always A B.
    both = [parse_tree("(X (A a) (B b))"), *[parse_tree("(X (Y (A a) (B b)))")] * 3]
    assert str(Grammar(both, 1, 1, "tags").parse(["A", "B"])) == "(X (Y (A A) (B B)))"
    both = [*[parse_tree("(X (A a) (B b))")] * 3, parse_tree("(X (Y (A a) (B b)))")]
    assert str(Grammar(both, 1, 1, "tags").parse(["A", "B"])) == "(X (A A) (B B))"


def test_a_word_has_the_tag_that_makes_the_tree_most_probable():
    grammar = Grammar([*TREES, parse_tree("(S (NP (N saw)) (VP (V dog)))")], 1, 1)
    assert grammar.parse(["we", "saw", "dog"]).tags == ["N", "V", "N"]


def test_an_unknown_word_is_one_of_the_same_shape():
    # Only "cups" and "with" occur once, both without capitals.
    assert Grammar(TREES, 1, 1).parse(["we", "saw", "tables"]).tags == ["N", "V", "N"]
    assert shape("cups") == "<-s>" and shape("NATO") == "<AA>" and shape("I") == "<A>"
    assert shape("1,200s") == "<0>"


def test_a_sentence_that_the_rules_cannot_build_has_no_tree():
    assert Grammar(TREES, 1, 1, "tags").parse(["V", "N"]) is None
    assert Grammar(TREES, 1, 1, "tags").parse(["X"]) is None
    reference = Tree("S", (Tree("V", word="go"), Tree("N", word="home")))
    assert parse_with_grammar(Grammar(TREES, 1, 1), [reference]) == [reference]
