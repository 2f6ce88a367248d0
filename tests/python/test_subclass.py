"""Subclasses of tarn.Dataset: their __getitem__ is called wherever samples are read one by one."""
import copy
import importlib.util
import pickle

import pytest
from conftest import sanitized

import tarn

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None or sanitized(),
                           reason="needs torch, which is not run under AddressSanitizer")


class Times(tarn.Dataset):
    """Classes, times a number."""

    def __init__(self, dataset, factor=2):
        super().__init__(dataset)
        self.factor = factor

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return sample["cls"] * self.factor if isinstance(sample, dict) else sample


class Named(tarn.Dataset):
    """Overrides nothing that reads samples."""

    def name(self):
        return "birds"


@pytest.fixture
def ds(birds):
    return tarn.open(birds, fields=["cls", "txt"])


@pytest.fixture
def times(ds):
    return Times(ds, factor=3)


def test_iteration_and_batches_call_it(times):
    assert list(times) == [times[i] for i in range(4)] == [0, 3, 6, 9]
    assert times.__getitems__([3, 0, -1]) == [9, 0, 9]
    shuffled = times.shuffle(seed=7)
    assert list(shuffled) == [3 * cls for cls in (2, 0, 1, 3)]
    shuffled.set_epoch(1)
    assert list(shuffled) == [3 * cls for cls in shuffled.integers("cls")]


def test_derived_datasets_and_copies_keep_class_and_attributes(times):
    for made in (times[1:3], times[[1, 2]], times.filter(keys=["jay", "kiwi"]),
                 pickle.loads(pickle.dumps(times[1:3])), copy.copy(times)[1:3]):
        assert type(made) is Times and made.factor == 3 and list(made) == [3, 6]
    assert [list(times.shard(rank, 2)) for rank in range(2)] == [[0, 6], [3, 9]]


def test_functions_given_to_map_come_first(times):
    assert list(times.map(cls=lambda label: label + 1)) == [3, 6, 9, 12]


def test_a_filter_and_a_mix_call_it(times, ds):
    assert list(times.filter(lambda value: value > 3)) == [6, 9]
    mixed = tarn.mix(times, times[:2])
    assert sorted(mixed) == [0, 0, 3, 3, 6, 9] == sorted(pickle.loads(pickle.dumps(mixed)))


def test_a_state_of_its_iteration_resumes(times):
    shuffled = times.shuffle(seed=7)
    begun = iter(shuffled)
    first = [next(begun) for _ in range(3)]
    again = times.shuffle(seed=7)
    again.load_state_dict(shuffled.state_dict())
    assert first + list(again) == list(shuffled)


def test_an_exception_in_it_is_raised_and_the_sample_is_tried_again(times):
    samples = iter(times)
    times.factor = None
    with pytest.raises(TypeError):
        next(samples)
    times.factor = 1
    assert list(samples) == [0, 1, 2, 3]


def test_a_loader_is_refused_with_the_reason(times):
    with pytest.raises(tarn.UsageError, match="Times overrides __getitem__.*DataLoader"):
        times.loader(2)


def test_other_subclasses_load_and_read_as_before(ds):
    named = Named(ds)
    assert list(named[1:]) == list(ds[1:]) and named[1:].name() == "birds"
    assert [batch["cls"].tolist() for batch in named.loader(3, threads=0)] == [[0, 1, 2], [3]]
    assert list(tarn.Dataset(ds)) == list(ds) and tarn.Dataset(ds) == ds


def test_a_dataset_is_not_made_of_a_path(birds):
    with pytest.raises(tarn.UsageError, match="tarn.open"):
        Times(birds)


@torch
@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_calls_it(times, ds, workers):
    from torch.utils.data import ConcatDataset, DataLoader

    loader = DataLoader(times, batch_size=3, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 3, 6], [9]]
    both = ConcatDataset([times, Times(ds, 1)])
    assert [batch.tolist() for batch in DataLoader(both, batch_size=4, num_workers=workers)] == [
        [0, 3, 6, 9], [0, 1, 2, 3]]
