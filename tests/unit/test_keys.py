import copy
import pickle
import re
import sqlite3
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq import keys
from slotq.errors import InvalidValue
from slotq.keys import ANY, Subject, literal, parse_subject

# What escapes, patterns and GLOB give a meaning, a newline, case, and more than one byte.
ODD = "*\\?[]^-\nabA%:/é😀"
TEXTS = st.text(ODD, max_size=8)
PARTS = st.text(ODD, min_size=1, max_size=8)

key: Callable[..., str] = keys.key  # without the types, to pass wrong ones


def matches(subject: str, text: str) -> bool:
    """Try every way to spread the text over the subject: the definition, not the method."""

    @cache
    def rest(at: int, done: int) -> bool:
        if at == len(subject):
            return done == len(text)
        if subject[at] == "*":
            return any(rest(at + 1, end) for end in range(done, len(text) + 1))
        width = 2 if subject[at : at + 2] in ("\\*", "\\\\") else 1
        wanted = subject[at + width - 1]
        return text[done : done + 1] == wanted and rest(at + width, done + 1)

    return rest(0, 0)


def accepts(subject: Subject, text: str) -> bool:
    """Ask SQLite, as the store does."""
    if subject.kind == "key":
        return subject.subject == text
    connection = sqlite3.connect(":memory:")
    found: tuple[int] = connection.execute("SELECT ? GLOB ?", (text, subject.glob)).fetchone()
    connection.close()
    return bool(found[0])


@given(st.text("*\\?[a", min_size=1, max_size=7), st.text("*\\?[a", min_size=1, max_size=7))
def test_subject_matches_what_brute_force_matches(subject: str, text: str) -> None:
    assert accepts(parse_subject(subject), text) == matches(subject, text)


@given(st.text(ODD, min_size=1, max_size=6), st.data())
def test_subject_matches_texts_made_from_it(subject: str, data: st.DataObject) -> None:
    pieces = re.findall(r"\\[*\\]|.", subject, re.DOTALL)
    text = "".join(data.draw(TEXTS) if piece == "*" else piece[-1] for piece in pieces)
    assert matches(subject, text)
    assert accepts(parse_subject(subject), text)


@given(st.text(ODD, min_size=1, max_size=6), TEXTS)
def test_subject_agrees_with_brute_force_on_odd_texts(subject: str, text: str) -> None:
    assert accepts(parse_subject(subject), text) == matches(subject, text)


@given(st.text(ODD, min_size=1, max_size=8))
def test_subject_is_a_pattern_exactly_if_a_star_is_not_escaped(subject: str) -> None:
    parsed = parse_subject(subject)
    pieces: list[str] = re.findall(r"\\[*\\]|.", subject, re.DOTALL)
    assert parsed.kind == ("pattern" if "*" in pieces else "key")
    assert parsed.literals == len(pieces) - pieces.count("*")
    if parsed.kind == "key":
        assert (len(parsed.subject), parsed.glob) == (parsed.literals, "")
    else:
        assert parsed.subject == subject


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("a", ("key", "a", "", 1)),
        (r"\*", ("key", "*", "", 1)),
        (r"\\", ("key", "\\", "", 1)),
        ("\\", ("key", "\\", "", 1)),
        (r"\a", ("key", r"\a", "", 2)),
        (r"\\*", ("pattern", r"\\*", r"\*", 1)),
        ("*", ("pattern", "*", "*", 0)),
        ("a**b", ("pattern", "a**b", "a*b", 2)),
        (r"*\*?[x]", ("pattern", r"*\*?[x]", "*[*][?][[]x]", 5)),
        ("tenant:*/é\n", ("pattern", "tenant:*/é\n", "tenant:*/é\n", 10)),
    ],
)
def test_parsed_subjects(subject: str, expected: tuple[str, str, str, int]) -> None:
    parsed = parse_subject(subject)
    assert (parsed.kind, parsed.subject, parsed.glob, parsed.literals) == expected


@given(st.text("*\\a", min_size=1, max_size=6))
def test_literal_escapes_stars_behind_backslashes(text: str) -> None:
    assert parse_subject(literal(text)).subject == text
    assert parse_subject(literal(text)).kind == "key"


@given(PARTS, PARTS)
def test_literal_means_only_its_own_text(text: str, other: str) -> None:
    parsed = parse_subject(literal(text))
    assert (parsed.kind, parsed.subject) == ("key", text)
    assert accepts(parsed, other) == (other == text)


@given(st.tuples(PARTS, PARTS, st.none() | PARTS), st.tuples(PARTS, PARTS, st.none() | PARTS))
def test_different_parts_give_different_keys(
    left: tuple[str, str, str | None], right: tuple[str, str, str | None]
) -> None:
    assert (key(*left) == key(*right)) == (left == right)


@given(st.text("ab%:/2F", min_size=1, max_size=12), st.integers(1, 10), st.integers(1, 10))
def test_the_same_characters_cut_at_other_places_give_other_keys(
    text: str, first: int, second: int
) -> None:
    cuts = {(text[:cut], text[cut:]) for cut in (first, second) if 0 < cut < len(text)}
    assert len({key(kind, id_) for kind, id_ in cuts}) == len(cuts)


@given(PARTS, PARTS, st.none() | PARTS, PARTS)
def test_a_key_as_a_limits_subject_matches_only_itself(
    kind: str, id_: str, action: str | None, other: str
) -> None:
    made = key(kind, id_, action)
    parsed = parse_subject(made)
    assert parsed == Subject(kind="key", subject=made, glob="", literals=len(made))
    assert accepts(parsed, other) == (other == made)


@given(PARTS, PARTS, PARTS, PARTS)
def test_any_matches_each_id_of_its_kind_and_action_only(
    kind: str, id_: str, action: str, other: str
) -> None:
    pattern = parse_subject(key(kind, ANY, action))
    assert pattern.kind == "pattern"
    assert accepts(pattern, key(kind, id_, action))
    assert accepts(pattern, key(other, id_, action)) == (other == kind)
    assert accepts(pattern, key(kind, id_, other)) == (other == action)
    assert not accepts(pattern, key(kind, id_))


def test_keys_read_as_written() -> None:
    assert key("workspace", 42, action="export") == "workspace:42/export"
    assert key("workspace", "42", action="export") == "workspace:42/export"
    assert key("workspace", -7) == "workspace:-7"
    assert key("workspace", ANY, action="export") == "workspace:*/export"
    assert key("workspace", "*") == "workspace:%2A"
    assert key("a:b", "50%", action="x/y\\z") == "a%3Ab:50%25/x%2Fy%5Cz"
    assert key("größe", "é 😀\n") == "größe:é 😀\n"


REFUSED: list[tuple[tuple[object, ...], str]] = [
    (("", "x"), "kind must have 1 to 1,024 characters, this one has 0"),
    (("w", ""), "id must have 1 to 1,024 characters, this one has 0"),
    (("w", 1, ""), "action must have 1 to 1,024 characters, this one has 0"),
    (("w", None), "id must be a str, an int or ANY, not None"),
    (("w", True), "id must be a str, an int or ANY, not True"),
    (("w", 1.0), "id must be a str, an int or ANY, not 1.0"),
    (("w", b"x"), "id must be a str, an int or ANY, not b'x'"),
    (("w", 10**5_000), "id must be shorter, not an integer of 16,610 bits"),
    ((7, "x"), "kind must be a str, not 7"),
    ((ANY, "x"), "kind must be a str, not <AnyId.ANY: '*'>"),
    (("w", "x", 7), "action must be a str, not 7"),
    (("w", "a\0"), r"id must not contain NUL, not 'a\x00'"),
    (("w", "\ud800"), r"id must not contain lone surrogates, not '\ud800'"),
    (("w", "x" * 1_023), "key must have at most 1,024 characters, this one has 1,025"),
    (("w", ":" * 400), "key must have at most 1,024 characters, this one has 1,202"),
    (("w" * 2_000, "x"), "kind must have 1 to 1,024 characters, this one has 2,000"),
]


def test_parts_that_make_no_key_are_refused() -> None:
    for parts, line in REFUSED:
        with pytest.raises(InvalidValue) as caught:
            key(*parts)
        assert str(caught.value) == line


def test_longest_key_fits() -> None:
    assert len(key("w", "x" * 1_022)) == 1_024
    assert len(key("w", 10**900)) == 903


@pytest.mark.parametrize("make", [literal, parse_subject])
def test_what_is_no_key_has_no_literal_and_is_no_subject(make: Callable[..., object]) -> None:
    for text in ("", None, 42, "a\0", "\ud800", "x" * 1_025):
        with pytest.raises(InvalidValue):
            make(text)


def test_subject_may_escape_every_character_of_the_longest_key() -> None:
    assert parse_subject(literal("*" * 1_024)).subject == "*" * 1_024
    with pytest.raises(InvalidValue, match="1,024 characters besides its stars"):
        parse_subject("*" + "x" * 1_025)
    with pytest.raises(InvalidValue, match="1 to 2,048 characters, this one has 2,049"):
        parse_subject("*" * 2_049)


def test_many_stars_do_not_make_sqlite_slow() -> None:
    subject = parse_subject("*a" * 500 + "*b")
    assert not accepts(subject, "a" * 1_024)


def test_any_stays_the_one_any() -> None:
    assert copy.deepcopy(ANY) is ANY
    assert pickle.loads(pickle.dumps(ANY)) is ANY
