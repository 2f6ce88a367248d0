"""Datasets as plain lists: the expected result of every chain of selections and orders.

A model computes which samples come in an epoch, by the rules of docs/internals/chain.md. It knows
nothing about files. The permutations themselves are taken from `tarn.Order`, which has its own
test vectors in test_order.c and test_order_random.c.
"""
from fractions import Fraction

import tarn

ARRAYS = {"weighted": "weights", "weighted-once": "weights", "balanced": "classes",
          "lengths": "lengths"}


class Sample(tuple):
    """(key, cls); samples of different sources with the same values are equal."""


class Model:
    """Samples that are fixed or a live mix, then an order that changes with the epoch, then
    shards."""

    def __init__(self, base, order=None, shards=(), epoch=0):
        self.base = base  # epoch -> list of samples
        self.order = order  # None, or (kind, options)
        self.shards = tuple(shards)
        self.epoch = epoch

    @classmethod
    def of(cls, samples):
        samples = list(samples)
        return cls(lambda epoch: samples)

    def items(self, epoch=None):
        epoch = self.epoch if epoch is None else epoch
        out = self.base(epoch)
        if self.order is not None:
            out = arrange(out, *self.order, epoch)
        for rank, world, uneven in self.shards:
            out = part(out, rank, world, uneven)
        return out

    # --- Steps of chains ---

    def select(self, positions):
        items = self.items()
        return Model.of(items[i] for i in positions).at(self.epoch)

    def filter(self, wanted):
        if self.order is not None and not self.shards:
            kept = [sample for sample in self.base(self.epoch) if wanted(sample)]
            return Model(lambda epoch: kept, self.order, (), self.epoch)
        return Model.of(filter(wanted, self.items())).at(self.epoch)

    def arranged(self, kind, options):
        """Applies another order. The current order is frozen, but a mix below it continues."""
        base, order, shards, frozen = self.base, self.order, self.shards, self.epoch
        if kind in ARRAYS:  # the numbers refer to the samples in their current order
            items = self.items()
            return Model(lambda epoch: items, (kind, options), (), frozen)
        if order is None and not shards:
            return Model(base, (kind, options), (), frozen)

        def below(epoch):
            out = base(epoch)
            if order is not None:
                out = arrange(out, *order, frozen)
            for shard in shards:
                out = part(out, *shard)
            return out

        return Model(below, (kind, options), (), frozen)

    def shard(self, rank, world, uneven="keep"):
        return Model(self.base, self.order, (*self.shards, (rank, world, uneven)), self.epoch)

    def at(self, epoch):
        return Model(self.base, self.order, self.shards, epoch)


def arrange(samples, kind, options, epoch):
    """Returns samples in the order of an epoch; empty if a filter below the order left none."""
    if not samples:
        return []
    numbers = [sample[1] for sample in samples]
    given = dict(options)
    if kind in ARRAYS:
        given[ARRAYS[kind]] = numbers
    order = tarn.Order(len(samples), kind=kind, epoch=epoch, **given)
    return [samples[order[i]] for i in range(len(order))]


def part(samples, rank, world, uneven):
    """Returns the samples of one rank."""
    if uneven == "drop":
        samples = samples[:len(samples) // world * world]
    if uneven == "pad" and samples:
        missing = -len(samples) % world
        samples = samples + [samples[i % len(samples)] for i in range(missing)]
    return samples[rank::world]


def interleaved(counts):
    """Returns the source at each position of a mix."""
    turns = sorted((Fraction(2 * turn + 1, count), source)
                   for source, count in enumerate(counts) for turn in range(count))
    return [source for _, source in turns]


def mixed(models, counts):
    """A mix. Each source continues from epoch to epoch, and one pass through it is one epoch of
    the source."""
    lengths = [len(model.items(0)) for model in models]
    places = interleaved(counts)

    def base(epoch):
        used = [epoch * count for count in counts]
        out = []
        for source in places:
            epoch_of, position = divmod(used[source], lengths[source])
            used[source] += 1
            out.append(models[source].items(epoch_of)[position])
        return out

    return Model(base)
