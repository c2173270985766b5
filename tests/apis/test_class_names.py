from pathlib import Path

import pytest

from mmvidformer.apis import read_class_names


def test_names_of_text_and_csv_files(tmp_path: Path) -> None:
    verbs, nouns, actions = (tmp_path / n for n in ("verbs.txt", "nouns.csv", "actions.csv"))
    verbs.write_text("take\nput\n")
    nouns.write_text("id,key,instances\n0,tap,[]\n2,pan,[]\n1,plate,[]\n")
    actions.write_text("id, verb, noun, action\n0, 0, 1, take plate\n1, 1, 2, put pan\n")
    tasks = {"action": 2, "verb": 2, "noun": 3}
    found = read_class_names([f"verb={verbs}", f"noun={nouns}", f"action={actions}"], tasks)
    assert found == {
        "action": ["take plate", "put pan"],
        "verb": ["take", "put"],
        "noun": ["tap", "plate", "pan"],
    }
    assert read_class_names([f"noun={nouns}"], tasks)["verb"] == ["0", "1"]
    assert read_class_names([str(verbs)], {"class": 2}) == {"class": ["take", "put"]}
    with pytest.raises(ValueError, match="nouns.csv has no name of class 3 of 4"):
        read_class_names([f"noun={nouns}"], {"noun": 4})
    with pytest.raises(ValueError, match="has 2 names, the model 3 classes"):
        read_class_names([str(verbs)], {"class": 3})
    with pytest.raises(ValueError, match="given as action=FILE verb=FILE noun=FILE; got 'x.txt'"):
        read_class_names(["x.txt"], tasks)
    nouns.write_text("noun,name\n0,tap\n")
    with pytest.raises(ValueError, match="needs a column of .* it has .'noun', 'name'"):
        read_class_names([f"noun={nouns}"], {"noun": 1})
