"""GPT-2 and BERT trained by transformers' Trainer, with its optimizer, schedule and files.

Stands for: fine-tuning with the Trainer, as transformers' examples have it.
"""

import tempfile

import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class Lines(torch.utils.data.Dataset):
    """Random tokens, the same in each run."""

    def __init__(self, words, classes):
        draw = torch.Generator().manual_seed(3)
        self.words = torch.randint(0, words, (16, 24), generator=draw)
        self.labels = torch.randint(0, classes, (16,), generator=draw) if classes else self.words

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def train(name, model, lines):
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            max_steps=2,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            seed=0,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            eval_strategy="no",
            optim="adamw_torch",
            learning_rate=1e-3,
        )
        trainer = transformers.Trainer(model, arguments, train_dataset=lines, eval_dataset=lines)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        answer = trainer.predict(lines).predictions
        print(name, "answers", torch.tensor(answer).view(torch.int32).sum().item())
        trainer.save_model(folder)
        kept = type(model).from_pretrained(folder)
        print(
            name, "weights", sum(each.view(torch.int32).sum().item() for each in kept.parameters())
        )


torch.manual_seed(0)
train(
    "GPT-2",
    transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=1024,
            n_positions=64,
            n_embd=256,
            n_layer=3,
            n_head=8,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
    Lines(1024, None),
)
train(
    "BERT",
    transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=2048,
            hidden_size=256,
            num_hidden_layers=3,
            num_attention_heads=8,
            intermediate_size=1024,
            num_labels=4,
        )
    ),
    Lines(2048, 4),
)
