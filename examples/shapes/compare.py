"""Compares a run that was killed and resumed with one that was not.

    python compare.py WHOLE KILLED

WHOLE and KILLED are the names that were given to train.py. The log of the killed run has the batches
of both processes. The second process repeats those after the last checkpoint of the first; they count
once.
"""

import sys

import torch

Batch = tuple[int, int, list[str]]  # epoch, number in the epoch, keys


def read(path: str) -> list[Batch]:
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.endswith("\n")]
    return [(int(epoch), int(number), keys) for epoch, number, *keys in lines]


def main(whole_run: str, killed_run: str) -> int:
    whole, lives = read(whole_run + ".log"), read(killed_run + ".log")
    second = next(i for i in range(1, len(lives)) if lives[i][:2] <= lives[i - 1][:2])
    epoch, again, _ = lives[second]
    killed_at = lives[second - 1][1]
    before = [batch for batch in lives[:second] if batch[:2] < (epoch, again)]
    after = lives[second:]

    seen = [key for number, _, keys in before + after if number == epoch for key in keys]
    every = {key for number, _, keys in whole if number == epoch for key in keys}
    once = len(seen) == len(set(seen)) and set(seen) == every
    same = before + after == whole
    weights = [torch.load(run + ".pt", weights_only=True)["model"] for run in (whole_run, killed_run)]
    equal = all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])

    answer = {True: "yes", False: "NO"}
    print(f"killed in epoch {epoch} after batch {killed_at}, resumed after batch {again - 1}")
    print(f"all {len(every)} samples of that epoch, each exactly once: {answer[once]}")
    print(f"the same {len(whole)} batches as the run that was not killed: {answer[same]}")
    print(f"the same weights at the end, to the bit: {answer[equal]}")
    return 0 if once and same and equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
