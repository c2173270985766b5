"""Names of files as text."""


def spell(name: str) -> str:
    r"""Spell a file name that is not UTF-8 for tables: its foreign bytes as in ``caf\xe9.mp4``.

    ``os.fsencode(name)`` would be the bytes of the file name; tables hold only UTF-8.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
