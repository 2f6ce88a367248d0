#!/usr/bin/env python3
"""Hugging Face transformers: its Trainer takes a dataset as it is."""
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


peer.run(a_trainer_sees_every_sample_in_each_epoch)
