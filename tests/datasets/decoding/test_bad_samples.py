"""The record of bad samples, in one process and in several."""

import gc
import os
import pickle

from mmvidformer.datasets.decoding.bad_samples import BadSample, BadSamples

GONE = BadSample(3, "a.mp4", "there is no such file")


def test_each_sample_is_in_the_record_once():
    record = BadSamples()
    other = GONE._replace(index=5)  # the same file
    for _ in range(2):
        record.add(GONE, in_epoch=True)
        record.add(other, in_epoch=True)
    assert record.known() == {3: GONE, 5: other}
    assert record.in_epoch() == 2
    with open(record.file) as file:
        assert len(file.readlines()) == 2


def test_only_what_is_due_counts_for_an_epoch():
    record = BadSamples()
    record.add(GONE, in_epoch=True)
    record.start_epoch()
    assert record.in_epoch() == 0 and record.known() == {3: GONE}
    record.add(GONE)
    record.add(BadSample(4, "b.mp4", "cut"))
    assert record.in_epoch() == 0 and len(record.known()) == 2
    record.add(GONE, in_epoch=True)
    assert record.in_epoch() == 1


def test_copies_and_forks_share_the_record():
    record = BadSamples()
    copy = pickle.loads(pickle.dumps(record))
    child = os.fork()
    if child == 0:
        record.add(GONE, in_epoch=True)
        del record, copy
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    copy.add(BadSample(4, "b.mp4", "cut"))
    assert list(record.known()) == list(copy.known()) == [3, 4]
    copy.start_epoch()
    assert record.in_epoch() == 0


def test_the_file_is_removed_with_the_record():
    record = BadSamples()
    file = record.file
    del record
    gc.collect()
    assert not os.path.exists(file)
