"""The record of bad samples, in one process and in several."""

import gc
import os
import pickle

from mmvidformer.datasets.decoding.errors import BadSample, BadSamples

GONE = BadSample(3, "a.mp4", "there is no such file")


def test_each_sample_is_in_the_record_once():
    record = BadSamples()
    other = GONE._replace(index=5)  # the same file
    for _ in range(2):
        record.add(GONE)
        record.add(other)
    assert record.known() == {3: GONE, 5: other}
    with open(record.file) as file:
        assert len(file.readlines()) == 2


def test_copies_and_forks_share_the_record():
    record = BadSamples()
    copy = pickle.loads(pickle.dumps(record))
    child = os.fork()
    if child == 0:
        record.add(GONE)
        del record, copy
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    copy.add(BadSample(4, "b.mp4", "cut"))
    assert list(record.known()) == list(copy.known()) == [3, 4]


def test_the_file_is_removed_with_the_record():
    record = BadSamples()
    file = record.file
    del record
    gc.collect()
    assert not os.path.exists(file)
