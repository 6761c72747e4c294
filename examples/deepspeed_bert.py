"""BERT in inference, as the flops profiler's documentation has it; only the import is another. Needs transformers.

python examples/deepspeed_bert.py     # downloads bert-base-uncased, or takes a folder of that name
"""

import torch
from transformers import BertForSequenceClassification, BertTokenizer

from flopsight.profiling.flops_profiler import get_model_profile


# fmt: off
def bert_input_constructor(batch_size, seq_len, tokenizer):
    fake_seq = ""
    for _ in range(seq_len - 2):  # ignore the two special tokens [CLS] and [SEP]
      fake_seq += tokenizer.pad_token
    inputs = tokenizer([fake_seq] * batch_size,
                       padding=True,
                       truncation=True,
                       return_tensors="pt")
    labels = torch.tensor([1] * batch_size)
    inputs = dict(inputs)
    inputs.update({"labels": labels})
    return inputs


tokenizer = BertTokenizer.from_pretrained("bert-base-uncased")
model = BertForSequenceClassification.from_pretrained("bert-base-uncased")
batch_size = 4
seq_len = 128
enable_profile = True
if enable_profile:
  flops, macs, params = get_model_profile(
      model,
      kwargs=bert_input_constructor(batch_size, seq_len, tokenizer),
      print_profile=True,
      detailed=True,
  )
else:
  inputs = bert_input_constructor((batch_size, seq_len), tokenizer)
  outputs = model(inputs)
# fmt: on
print(flops, macs, params)
