"""The order of the files of tests."""

from tests.longest_files import FILES, HERE, longest_first


def test_the_longest_files_are_first(request) -> None:
    assert [name for name in FILES if not (HERE / name).is_file()] == []
    ranks = [longest_first(item) for item in request.session.items]
    assert ranks == sorted(ranks) and ranks[-1] == len(FILES)
