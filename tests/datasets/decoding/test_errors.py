"""The record of bad samples, in one process and in several."""

import gc
import os
import pickle

from mmvidformer.datasets.decoding.errors import BadSamples

GONE = "a.mp4", "there is no such file"


def test_each_sample_is_in_the_record_once():
    record = BadSamples()
    for _ in range(2):
        record.add(3, *GONE)
        record.add(5, *GONE)
    assert record.known() == {3: GONE, 5: GONE}
    with open(record.file) as file:
        assert len(file.readlines()) == 2


def test_copies_and_forks_share_the_record():
    record = BadSamples()
    copy = pickle.loads(pickle.dumps(record))
    child = os.fork()
    if child == 0:
        record.add(3, *GONE)
        del record, copy
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    copy.add(4, "b.mp4", "cut")
    assert list(record.known()) == list(copy.known()) == [3, 4]


def test_the_file_is_removed_with_the_record():
    record = BadSamples()
    file = record.file
    del record
    gc.collect()
    assert not os.path.exists(file)


def test_a_line_that_is_being_written_is_read_later():
    record = BadSamples()
    with open(record.file, "a") as file:
        file.write('[3, "a.mp4", ')
        file.flush()
        assert record.known() == {}
        file.write('"cut"]\n')
    assert record.known() == {3: ("a.mp4", "cut")}
