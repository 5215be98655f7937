import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slotq import visible
from slotq.errors import one_line, shown

# Arabic signs that are format characters by their class, and stand there for everybody to see.
SEEN_FORMATS = set(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
) | set(map(chr, range(0x13430, 0x13456)))
JOINERS = "\u200c\u200d"
EVERY_CHARACTER = [chr(number) for number in range(0x110000)]


def is_hidden(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind in {"Cc", "Cs", "Zl", "Zp"} or (kind == "Cf" and char not in SEEN_FORMATS)


HIDDEN = [char for char in EVERY_CHARACTER if is_hidden(char)]
NASTY = st.text(st.sampled_from(HIDDEN) | st.characters(), max_size=300)
LONG = st.lists(NASTY, max_size=5).map("\u2028".join)


def test_each_hidden_character_becomes_an_escape_and_each_other_stays() -> None:
    assert len(HIDDEN) > 2_000
    for char in EVERY_CHARACTER:
        if is_hidden(char):
            assert visible(char) == char.encode("unicode_escape").decode("ascii")
        elif char.isprintable() or unicodedata.category(char) in {"Zs", "Co"}:
            assert visible(char) == char
        else:
            assert visible(char) in {char, char.encode("unicode_escape").decode("ascii")}


@pytest.mark.parametrize(
    ("text", "shown_as"),
    [
        ("red \x1b[31m bell \x07", r"red \x1b[31m bell \x07"),
        ("C1 \x9b31m", r"C1 \x9b31m"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("invoice\u202efdp.exe", r"invoice\u202efdp.exe"),
        ("\u2028\u2029\ud800\x00\x7f", r"\u2028\u2029\ud800\x00\x7f"),
        ("ad\u00admin \u200b\ufeff\u2060\U000e0041", r"ad\xadmin \u200b\ufeff\u2060\U000e0041"),
        ("C:\\new \\x1b \x1b", r"C:\new \x1b \x1b"),
        ("ac\u200dme \u200c \u200d", r"ac\u200dme \u200c \u200d"),
        ("\u8868\u200dabc", "\u8868" + r"\u200dabc"),
        ("\u200d\u8868", r"\u200d" + "\u8868"),
        ("end \U0001f469\u200d", r"end " + "\U0001f469" + r"\u200d"),
        ("\U0001f469\u200d\u200d\U0001f4bb", "\U0001f469" + r"\u200d\u200d" + "\U0001f4bb"),
        ("flag \U0001f3f4\U000e0067\x1b", "flag \U0001f3f4" + r"\U000e0067\x1b"),
    ],
)
def test_what_acts_or_hides_is_shown(text: str, shown_as: str) -> None:
    assert visible(text) == shown_as


@pytest.mark.parametrize(
    "text",
    [
        "",
        "größer 表 שלום",
        "wide\u3000and\u00a0narrow\u2009spaces",
        "\U0001f469\U0001f3fd\u200d\U0001f4bb and \u2764\ufe0f\u200d\U0001f525",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
    ],
)
def test_texts_of_people_stay_as_they_are(text: str) -> None:
    assert visible(text) == text
    assert visible(f"{text}\x07") == f"{text}\\x07"


def test_lines_stay_where_they_are_asked_for() -> None:
    assert visible("a\n\tb\r\n\x1b", lines=True) == "a\n\\tb\\r\n\\x1b"


@given(text=NASTY, lines=st.booleans())
@example(text="\ud83d\ude00", lines=False)
def test_nothing_that_acts_or_hides_is_left(text: str, *, lines: bool) -> None:
    safe = visible(text, lines=lines)
    left = {char for char in safe if is_hidden(char)} - ({"\n"} if lines else set())
    assert left <= set(JOINERS) | {char for char in text if "\U000e0020" <= char <= "\U000e007f"}
    assert not {"\u200d\u200d", "\u200c\u200c"} & {safe[at : at + 2] for at in range(len(safe))}
    assert safe.count("\n") == (text.count("\n") if lines else 0)
    assert visible(safe, lines=lines) == safe
    safe.encode()


@given(text=LONG, high=st.integers(4, 200))
def test_one_line_keeps_its_length_and_hides_nothing(text: str, high: int) -> None:
    line = one_line(text, high=high)
    assert len(line) <= high
    assert visible(line) == line
    assert line.endswith("...") or len(text) <= high
    assert len(shown(text)) <= 80
    assert visible(shown(text)) == shown(text)


@given(text=st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]), max_size=80))
def test_printable_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
    assert visible(text, lines=True) == text
    assert one_line(text) == text
