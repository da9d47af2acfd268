#!/usr/bin/env python3
"""Writes the files beside it: a "cross-encoder" that likes high numbers, for tests of the reranking code.

Its one output for a pair is the mean number of the words w0 to w59 of query and passage together, less 30, by 10.
Needs onnx and numpy; run from anywhere. The tokenizer is that of ../tiny-embedder, without its padding.
"""

import json
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "../tiny-embedder/tokenizer.json"), encoding="utf-8") as file:
    tokenizer = json.load(file)
tokenizer["truncation"] = tokenizer["padding"] = None
with open(os.path.join(HERE, "tokenizer.json"), "w", encoding="utf-8") as file:
    json.dump(tokenizer, file, indent=1)
    file.write("\n")
for name, content in [
    ("config.json", {"model_type": "bert", "pad_token_id": 0}),
    ("tokenizer_config.json", {"model_max_length": 64, "pad_token": "[PAD]"}),
]:
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")

# Ids begin with four special tokens, so w0 has the id 4.
constants = {"offset": 34.0, "width": 10.0}
graph = helper.make_graph(
    [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["mean", "offset"], ["centered"]),
        helper.make_node("Div", ["centered", "width"], ["logits"]),
    ],
    "tiny",
    [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask")],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
    [numpy_helper.from_array(np.array(value, dtype=np.float32), name) for name, value in constants.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tailrace")
model.ir_version = 8
onnx.save(model, os.path.join(HERE, "model.onnx"))
