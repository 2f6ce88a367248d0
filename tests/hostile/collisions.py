"""Names with the same XXH64, computed by algebra, not by search.

The hash reads 32 bytes at a time into four lanes, lane = rotl(lane + word * P2, 31) * P1. For any
first word of a lane there is exactly one second word that leads the lane to a wanted value; about
one in 4,000 of those is printable. Pairs of words for two of the lanes, combined freely, give any
number of names of 64 bytes.
"""
import itertools
import struct

import numpy

MASK = (1 << 64) - 1
P1, P2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
P2_INVERSE = pow(P2, -1, 1 << 64)
LANES = ((P1 + P2) & MASK, P2, 0, -P1 & MASK)
LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789_-+=,;!#%&()[]{}@^~$ABCDEFGHIJKLMNOPQRSTUVWXYZ"
U = numpy.uint64
CHUNK = 1 << 19
REST = b"________"


def round_of(lane, word):
    mixed = (lane + word * P2) & MASK
    return ((mixed << 31 | mixed >> 33) * P1) & MASK


def words_of(numbers):
    """Eight letters for each number."""
    letters = numpy.frombuffer(LETTERS, numpy.uint8)
    out = numpy.empty((len(numbers), 8), numpy.uint8)
    for i in range(8):
        numbers, digits = numpy.divmod(numbers, numpy.uint64(len(LETTERS)))
        out[:, i] = letters[digits.astype(numpy.intp)]
    return out


def pairs(lane, count):
    """Pairs of words after which the lane is the same."""
    # The wanted value of the lane before the second word is mixed in: that of a printable pair.
    twin = struct.unpack("<Q", b"twin_one")[0]
    goal = (round_of(LANES[lane], twin) + twin * P2) & MASK
    allowed = numpy.zeros(256, bool)
    allowed[numpy.frombuffer(LETTERS, numpy.uint8)] = True
    found = [(b"twin_one", b"twin_one")]
    for begin in itertools.count(0, CHUNK):
        first = words_of(numpy.arange(begin, begin + CHUNK, dtype=numpy.uint64) *
                         numpy.uint64(7919))
        mixed = first.view("<u8")[:, 0] * U(P2) + U(LANES[lane])
        reached = (mixed << U(31) | mixed >> U(33)) * U(P1)
        second = ((U(goal) - reached) * U(P2_INVERSE)).view(numpy.uint8).reshape(-1, 8)
        for at in numpy.flatnonzero(allowed[second].all(axis=1)):
            found.append((first[at].tobytes(), second[at].tobytes()))
            if len(found) == count:
                return found
    return found


def colliding_names(count):
    """N different names of 64 bytes with the same hash."""
    side = int(count ** 0.5) + 1
    left, right = pairs(0, side), pairs(1, side)
    names = (a + b + REST * 2 + c + d + REST * 2 for a, c in left for b, d in right)
    return list(itertools.islice(names, count))


def plain_names(count):
    """As many names of the same length without collisions."""
    return [b"%064d" % (number * 104729) for number in range(count)]
