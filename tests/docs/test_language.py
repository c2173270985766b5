"""The pages have short sentences, in the words of the field."""

import re
from pathlib import Path

import pytest

from tests.docs.sentences import FENCE, count_words, read_sentences

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_WORDS = 20
# Words that a reader stops at, and what to write in their place.
UNUSUAL = {
    r"anew": "again, or a verb with re-",
    r"go(?:es)? on": "continue, resume",
    r"do(?:es)? so": "the action",
    r"films?": "video",
    r"how sure|surer|surest": "confidence",
    r"plain twin": "naive reference",
    r"drawn clips?": "synthetic",
    r"by heart": "overfits",
    r"each of whose": "two sentences",
    r"ours|theirs|by them": "the name",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    long = [
        f"line {line}, {count_words(sentence)} words: {sentence}"
        for line, sentence in read_sentences(page)
        if count_words(sentence) > MOST_WORDS
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_are_those_of_the_field(page: Path) -> None:
    found = [
        f"line {line}: {match[0]!r}; write {better}"
        for line, sentence in read_sentences(page)
        for word, better in UNUSUAL.items()
        if (match := re.search(rf"(?i)\b(?:{word})\b", sentence))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_follows_code_is_a_whole_sentence(page: Path) -> None:
    """It does not begin with a verb, as "writes a picture"."""
    text = page.read_text()
    after = [text[match.end() :] for match in FENCE.finditer(text)]
    verbs = [start.split()[0] for start in after if re.match(r"\n+[a-z]+s\b", start)]
    assert not verbs, f"begin with an actor before {verbs}"


def test_sentences_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n\nOne `a b c` [and\ntwo](x.md). Three!\n\n```bash\nnot this. Nor this\n```\n\n"
        "- An item. More\n  of it\n- Another\n\n| a cell; its end | `c|d` |\n\n    not this\n"
        "![no](y.png) <!-- no -->\n"
    )
    assert list(read_sentences(page)) == [
        (1, "# A title"),
        (3, "One CODE and two."),
        (3, "Three!"),
        (10, "- An item."),
        (10, "More of it"),
        (12, "- Another"),
        (14, " a cell"),
        (14, "its end "),
        (14, " CODE "),
    ]
    assert count_words("- A word, CODE and 2.5 - no dash") == 7
