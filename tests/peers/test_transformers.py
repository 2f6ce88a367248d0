#!/usr/bin/env python3
"""Hugging Face transformers: its Trainer takes a dataset as it is, and a loader as its dataloader."""
import collections
import sys
import tempfile

import peer

peer.needs("torch", "transformers", "accelerate")

import torch  # noqa: E402
import transformers  # noqa: E402

import tarn  # noqa: E402


class Linear(torch.nn.Module):
    """Four numbers in, four classes out."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.seen = 0

    def forward(self, x, labels):
        self.seen += len(labels)
        scores = self.layer(x / 64)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def collate(samples):
    return {"x": torch.stack([torch.as_tensor(sample["npy"]) for sample in samples]),
            "labels": torch.tensor([int(sample["cls"]) for sample in samples])}


def a_trainer_sees_every_sample_in_each_epoch(folder):
    ds = tarn.open(folder, fields=["npy", "cls"], array_type="torch")
    model = Linear()
    with tempfile.TemporaryDirectory() as out:
        options = transformers.TrainingArguments(
            output_dir=out, num_train_epochs=2, per_device_train_batch_size=8, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True, remove_unused_columns=False, logging_strategy="no")
        transformers.Trainer(model=model, args=options, train_dataset=ds, data_collator=collate).train()
    assert model.seen == 2 * peer.COUNT, model.seen


# --- Loaders ---


class Seeing(Linear):
    """Remembers the numbers of the samples it has seen, by what the trainer does."""

    def __init__(self):
        super().__init__()
        self.what = ""
        self.keys = collections.defaultdict(list)

    def forward(self, x, labels, n):
        self.keys[self.what] += [f"s{int(i):03}" for i in n]
        return super().forward(x, labels)


class Trainer(transformers.Trainer):
    """Uses native loaders."""

    def get_train_dataloader(self):
        return self.train_dataset

    def get_eval_dataloader(self, eval_dataset=None):
        return self.eval_dataset


class State(transformers.TrainerCallback):
    """Saves the position of the loader with each checkpoint."""

    def __init__(self, loader):
        self.loader = loader

    def on_save(self, args, state, control, **more):
        torch.save(self.loader.state_dict(), f"{args.output_dir}/checkpoint-{state.global_step}/loader.pt")


class What(transformers.TrainerCallback):
    """Names what the model sees next. The first epoch of a run may be that of a checkpoint."""

    def __init__(self, model, epoch):
        self.model = model
        self.epoch = epoch

    def on_epoch_begin(self, args, state, control, **more):
        self.model.what = f"train {self.epoch}"

    def on_epoch_end(self, args, state, control, **more):
        self.model.what = f"eval {self.epoch}"
        self.epoch += 1


def train(ds, out, resume=None, **more):
    options = transformers.TrainingArguments(
        output_dir=out, num_train_epochs=3, per_device_train_batch_size=6, report_to=[], use_cpu=True,
        disable_tqdm=True, remove_unused_columns=False, logging_strategy="no", eval_strategy="epoch",
        save_strategy="steps", save_steps=4, ignore_data_skip=True, **more)
    model = Seeing()
    loader, val = ds.shuffle(1).loader(6, keys=False), ds.loader(6, keys=False, uneven="pad")
    if resume:
        loader.load_state_dict(torch.load(f"{resume}/loader.pt"))
    trainer = Trainer(model, options, train_dataset=loader, eval_dataset=val,
                      callbacks=[State(loader), What(model, loader.epoch)])
    trainer.train(resume_from_checkpoint=resume)
    return trainer.args.process_index, model.keys


def as_rank(folder, out):
    ds = tarn.open(folder, fields=["npy", "cls", "json"], array_type="torch").map(
        lambda sample: {"x": sample["npy"], "labels": sample["cls"], "n": sample["json"]["n"]})
    rank, whole = train(ds, f"{out}/whole")
    _, begun = train(ds, f"{out}/begun", max_steps=8)
    _, resumed = train(ds, f"{out}/resumed", f"{out}/begun/checkpoint-8")
    peer.write(out, rank, {"whole": whole, "begun": begun, "resumed": resumed})


def check(count, folder):
    ranks = peer.ranks(count, __file__, folder)
    whole, begun, resumed = (peer.joined([seen[name] for seen in ranks]) for name in ("whole", "begun", "resumed"))
    assert len(ranks) == count and {name for name in whole} == {
        f"{what} {epoch}" for epoch in range(3) for what in ("train", "eval")}, list(whole)
    for name, keys in whole.items():
        assert (keys if name.startswith("train") else sorted(set(keys))) == peer.KEYS, (name, len(keys))
    for epoch in range(3):
        name = f"train {epoch}"
        assert sorted(begun.get(name, []) + resumed.get(name, [])) == peer.KEYS, (name, begun, resumed)
    assert any(name in resumed for name in begun if name.startswith("train"))


def loaders_of_a_trainer_are_complete_in_one_process(folder):
    check(1, folder)


def loaders_of_a_trainer_are_complete_in_two_processes(folder):
    check(2, folder)


if len(sys.argv) > 1:
    as_rank(*sys.argv[1:])
else:
    peer.run(a_trainer_sees_every_sample_in_each_epoch, loaders_of_a_trainer_are_complete_in_one_process,
             loaders_of_a_trainer_are_complete_in_two_processes)
