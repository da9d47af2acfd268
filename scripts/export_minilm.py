#!/usr/bin/env python3
"""Exports all-MiniLM-L6-v2 to ONNX with dynamically quantized weights.

    export_minilm.py SAFETENSORS CONFIG OUT.onnx [--fp32]

The BERT graph is built node by node from the weights file, so neither torch nor a model hub is
needed: numpy, onnx and onnxruntime (its quantizer) are. Inputs `input_ids`, `attention_mask` and
`token_type_ids`, all int64 [batch, sequence]; output `last_hidden_state`, float [batch, sequence, hidden].
Pooling and normalization are the caller's. The weights of matrix products become int8, one scale per output
channel; the activations' scale is found at run time, from the whole batch: whoever wants a text's vector to
depend on that text alone runs one text at a time. The word table is only looked up, never multiplied: half
precision keeps its values, where one int8 scale for all words moved cosines by .02.

Attention is one node (QAttention once quantized): query, key and value in one product, and no copies to turn them
around. docs/retrieval.md has what that saves, and what was tried and left.

The result is compared with the float graph before it is written; a poor one is refused.
"""

import json
import logging
import os
import struct
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# LayerNormalization is one operator from opset 17 on; every ONNX Runtime since 1.12 reads it.
OPSET = 17
# Where Attention, QAttention and FastGelu come from: operators that every ONNX Runtime brings along.
FUSED = "com.microsoft"
# Token ids (with [CLS] and [SEP]) of "The weather is lovely today.", and of a longer sentence.
SAMPLES = [
    [101, 1996, 4633, 2003, 8403, 2651, 1012, 102],
    [101, 2002, 5225, 2000, 1996, 3346, 1998, 4165, 2005, 1037, 2146, 2051, 2077, 1996, 2674, 2211, 1012, 102],
]
# Cosine between the float and the int8 vector of a sample; .99 is usual.
LEAST_COSINE = 0.97


def read_safetensors(path):
    """Name to float32 array. The format: header length, JSON header, raw little-endian data."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[start:end], dtype="<f4").reshape(entry["shape"])
    return tensors


class Graph:
    """Nodes and initializers in the order they were added."""

    def __init__(self):
        self.nodes = []
        self.initializers = []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output


def build(weights, config):
    """The float model."""
    hidden = config["hidden_size"]
    heads = config["num_attention_heads"]
    epsilon = config["layer_norm_eps"]
    graph = Graph()

    def linear(x, weight, bias, name):
        # PyTorch keeps weights as [out, in]; MatMul wants [in, out].
        product = graph.node("MatMul", [x, graph.constant(name + ".weight", weight.T)], name + ".product")
        return graph.node("Add", [product, graph.constant(name + ".bias", bias)], name)

    def plus(a, b, name):
        # Sum, not Add: the runtime makes one node of an Add and the normalization after it, and that node takes four
        # times as long as the two (a tenth of a run).
        return graph.node("Sum", [a, b], name)

    def layer_norm(x, prefix, name):
        scale = graph.constant(name + ".scale", weights[prefix + ".weight"])
        shift = graph.constant(name + ".shift", weights[prefix + ".bias"])
        return graph.node("LayerNormalization", [x, scale, shift], name, axis=-1, epsilon=epsilon)

    def integers(name, values):
        return graph.constant(name, np.array(values, dtype=np.int64))

    zero, one, two = integers("zero", [0]), integers("one", [1]), integers("two", [2])

    # Embeddings: word + token type + position.
    words = graph.constant("embeddings.word", weights["embeddings.word_embeddings.weight"].astype(np.float16))
    types = graph.constant("embeddings.type", weights["embeddings.token_type_embeddings.weight"])
    places = graph.constant("embeddings.position", weights["embeddings.position_embeddings.weight"])
    word = graph.node("Gather", [words, "input_ids"], "embeddings.words.half")
    word = graph.node("Cast", [word], "embeddings.words", to=TensorProto.FLOAT)
    kind = graph.node("Gather", [types, "token_type_ids"], "embeddings.types")
    shape = graph.node("Shape", ["input_ids"], "shape")
    length = graph.node("Slice", [shape, one, two], "length")
    place = graph.node("Slice", [places, zero, length, zero], "embeddings.places")
    x = plus(plus(word, kind, "embeddings.word_and_type"), place, "embeddings.sum")
    x = layer_norm(x, "embeddings.LayerNorm", "embeddings")

    # 1 where a token is, 0 where padding is.
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)

    for n in range(config["num_hidden_layers"]):
        source = "encoder.layer.%d." % n
        here = "layer%d." % n
        parts = [source + "attention.self." + part for part in ("query", "key", "value")]
        weight = np.concatenate([weights[part + ".weight"].T for part in parts], axis=1)
        bias = np.concatenate([weights[part + ".bias"] for part in parts])
        y = graph.node(
            "Attention",
            [x, graph.constant(here + "parts.weight", weight), graph.constant(here + "parts.bias", bias), mask],
            here + "context",
            domain=FUSED,
            num_heads=heads,
        )
        prefix = source + "attention.output."
        y = linear(y, weights[prefix + "dense.weight"], weights[prefix + "dense.bias"], here + "attention.output")
        y = plus(y, x, here + "attention.residual")
        x = layer_norm(y, prefix + "LayerNorm", here + "attention.norm")

        prefix = source + "intermediate.dense."
        y = linear(x, weights[prefix + "weight"], weights[prefix + "bias"], here + "intermediate")
        # GELU by tanh, not by erf: not more than .0005 apart, and cheaper.
        y = graph.node("FastGelu", [y], here + "gelu", domain=FUSED)
        prefix = source + "output."
        y = linear(y, weights[prefix + "dense.weight"], weights[prefix + "dense.bias"], here + "output")
        y = plus(y, x, here + "residual")
        last = n + 1 == config["num_hidden_layers"]
        x = layer_norm(y, prefix + "LayerNorm", "last_hidden_state" if last else here + "norm")

    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [
        value(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [value("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", hidden])]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)],
        producer_name="tailrace",
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def vectors(path):
    """Mean-pooled unit vectors of the samples, one run each (nothing is padded)."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = []
    for ids in SAMPLES:
        ids = np.array([ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = session.run(["last_hidden_state"], feed)[0][0].mean(axis=0)
        found.append(mean / np.linalg.norm(mean))
    return found


def main(arguments):
    float_only = "--fp32" in arguments
    arguments = [a for a in arguments if a != "--fp32"]
    if len(arguments) != 3:
        sys.exit(__doc__)
    weights_path, config_path, out = arguments
    with open(config_path, encoding="utf-8") as file:
        model = build(read_safetensors(weights_path), json.load(file))
    if float_only:
        onnx.save(model, out)
        return

    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(out))) as folder:
        exact, small = os.path.join(folder, "fp32.onnx"), os.path.join(folder, "int8.onnx")
        onnx.save(model, exact)
        # What it would say is that the graph could be prepared by an optimizer: it is, by hand.
        logging.disable(logging.WARNING)
        quantize_dynamic(
            exact,
            small,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            # Of what follows an operator outside of ONNX, the quantizer cannot tell the type itself.
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
        worst = min(float(a @ b) for a, b in zip(vectors(exact), vectors(small)))
        if worst < LEAST_COSINE:
            sys.exit("the quantized model strays from the float one: cosine %.4f" % worst)
        os.replace(small, out)
    print("exported %s, cosine to the float graph at least %.4f" % (os.path.basename(out), worst))


if __name__ == "__main__":
    main(sys.argv[1:])
