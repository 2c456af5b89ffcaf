"""Trains a BERT of two layers, made from a configuration, with the Trainer of transformers."""

from __future__ import annotations

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    """Made-up sentences; the label is whether a word occurs."""

    def __init__(self, count: int) -> None:
        words = torch.randint(2, 500, (count, 32), generator=torch.Generator().manual_seed(1))
        self.rows = [
            {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int((row < 20).any())}
            for row in words
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.rows[index]


def main() -> None:
    torch.manual_seed(5)
    torch.set_num_threads(1)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=500, **sizes))
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            max_steps=150,
            per_device_train_batch_size=16,
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        found = Trainer(model=model, args=arguments, train_dataset=Sentences(2400)).train()
    print(f"loss {found.training_loss:.4f}")


if __name__ == "__main__":
    main()
