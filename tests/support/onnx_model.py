"""A tiny ONNX model of word vectors for FastEmbed, whose own would be downloaded."""

import json
from collections.abc import Sequence
from pathlib import Path

DIMENSION = 384
MARKS = ("[PAD]", "[UNK]")


def write_model(folder: Path, words: Sequence[str]) -> None:
    """Write a model in which each word is a direction: it looks up its row in a table, and FastEmbed takes the mean."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = [*MARKS, *words]
    tokens = Tokenizer(models.WordLevel({word: n for n, word in enumerate(known)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.save(str(folder / "tokenizer.json"))
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    for name, value in {
        "config": {"pad_token_id": 0},
        "special_tokens_map": marks,
        "tokenizer_config": {"model_max_length": 512, "pad_token": "[PAD]"},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    table = np.eye(len(known), DIMENSION, dtype=np.float32)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", DIMENSION])
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([node], "tiny", inputs, [output], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
