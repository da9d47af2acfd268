#!/usr/bin/env python3
"""Writes the files beside it: an "embedding model" of 64 words and 8 numbers, for tests of model folders.

A word's vector is its row of a table, so a text's vector is the mean of its words' rows: whoever pools over
padding gets another one. Needs numpy and onnx; run from anywhere.
"""

import json
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ["w%d" % n for n in range(60)]


def write(name, content):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


table = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
table[0] = 100.0  # padding that is counted cannot be overlooked
graph = helper.make_graph(
    [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
    "tiny",
    [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask")],
    [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 8])],
    [numpy_helper.from_array(table, "table")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tailrace")
model.ir_version = 8
onnx.save(model, os.path.join(HERE, "model.onnx"))

special = [
    {"id": i, "content": w, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for i, w in enumerate(WORDS[:4])
]
write(
    "tokenizer.json",
    {
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 4},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(WORDS)}, "unk_token": "[UNK]"},
    },
)
write("config.json", {"model_type": "bert", "hidden_size": 8, "max_position_embeddings": 16, "pad_token_id": 0})
write("tokenizer_config.json", {"model_max_length": 1e30, "pad_token": "[PAD]"})
