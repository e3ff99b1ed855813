"""Writes an encoder's weights as an ONNX graph, without torch: the output of training and the input of ONNX Runtime."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid
from membra.see.glyphs import PATCH

Weights = Mapping[str, NDArray[np.float32]]
Shapes = Mapping[str, Sequence[int | str]]  # by the name of an input or output; a dimension may be a name

# Indices of the convolutions of the autoencoder's encoder in its torch Sequential; 7 is the linear layer.
_CONVOLUTIONS, _LINEAR = (0, 2, 4), 7
_OPSET = 17  # supported by every ONNX Runtime since 1.12
_TAKES: Shapes = {"patches": ["n", 1, PATCH, PATCH]}


def autoencoder_graph(weights: Weights) -> bytes:
    """Write the encoder half of the sparse autoencoder as ONNX: `patches` (n, 1, 64, 64) -> `embeddings` (n, d).

    `weights` are named as in the published code: `encoder_net.0.weight`, ...
    """
    from onnx import helper

    nodes: list[Any] = []
    kept, flow = [], "patches"
    for index in _CONVOLUTIONS:
        names = [f"encoder_net.{index}.weight", f"encoder_net.{index}.bias"]
        kept += [_tensor(weights, name) for name in names]
        nodes.append(
            helper.make_node(
                "Conv", [flow, *names], [f"conv{index}"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
            )
        )
        nodes.append(helper.make_node("Relu", [f"conv{index}"], [f"relu{index}"]))
        flow = f"relu{index}"
    nodes.append(helper.make_node("Flatten", [flow], ["flat"], axis=1))
    names = [f"encoder_net.{_LINEAR}.weight", f"encoder_net.{_LINEAR}.bias"]
    kept += [_tensor(weights, name) for name in names]
    nodes.append(helper.make_node("Gemm", ["flat", *names], ["embeddings"], transB=1))
    return model_of("membra autoencoder", nodes, kept, _TAKES, {"embeddings": ["n", len(weights[names[1]])]})


def identity_graph(weights: Weights) -> bytes:
    """Write the identity encoder as ONNX: `patches` (n, 1, 64, 64) -> `embeddings` (n, d) of unit length.

    `weights` are the state of `networks.Identity`; the graph is its `look_twice`. Each weight keeps its name in the
    file, so that training can continue from it (`weights_of`); ONNX Runtime folds the batch norms into the convolutions
    itself.
    """
    from onnx import helper

    nodes: list[Any] = []
    kept: list[tuple[str, NDArray[np.float32]]] = []

    def convolve(flow: str, name: str, stride: int) -> str:
        """Append convolution and batch norm, `name`.0 and `name`.1 of the torch module."""
        size = weights[f"{name}.0.weight"].shape[-1]
        norm = [f"{name}.1.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        kept.extend(_tensor(weights, each) for each in [f"{name}.0.weight", *norm])
        nodes.append(
            helper.make_node(
                "Conv",
                [flow, f"{name}.0.weight"],
                [f"{name}.0"],
                kernel_shape=[size, size],
                strides=[stride, stride],
                pads=[size // 2] * 4,
            )
        )
        nodes.append(helper.make_node("BatchNormalization", [f"{name}.0", *norm], [f"{name}.1"], epsilon=1e-5))
        return f"{name}.1"

    def apply(operation: str, inputs: list[str], output: str, **options: Any) -> str:
        nodes.append(helper.make_node(operation, inputs, [output], **options))
        return output

    # Attributes instead of constants, so that every number in the file is a weight.
    blurred = apply("AveragePool", ["patches"], "blurred", kernel_shape=[5, 5], pads=[2] * 4, count_include_pad=1)
    coarse = apply("HardSigmoid", [blurred], "coarse", alpha=3.0, beta=-1.0)
    flow = apply("Concat", ["patches", coarse], "looks", axis=0)
    flow = apply("Relu", [convolve(flow, "stem", 2)], "stem")
    for index in range(4):
        name, stride = f"blocks.{index}", 1 if index == 0 else 2
        inner = apply("Relu", [convolve(flow, f"{name}.first", stride)], f"{name}.relu")
        inner = convolve(inner, f"{name}.second", 1)
        short = convolve(flow, f"{name}.short", stride) if f"{name}.short.0.weight" in weights else flow
        flow = apply("Relu", [apply("Add", [inner, short], f"{name}.sum")], name)
    flow = apply("Flatten", [apply("GlobalAveragePool", [flow], "mean")], "flat", axis=1)
    kept.extend(_tensor(weights, name) for name in ("out.weight", "out.bias", "centre"))
    flow = apply("Gemm", [flow, "out.weight", "out.bias"], "out", transB=1)
    flow = apply("Sub", [apply("LpNormalization", [flow], "whole", axis=1, p=2), "centre"], "apart")
    flow = apply("LpNormalization", [flow], "both", axis=1, p=2)
    nodes.append(helper.make_node("Split", [flow], ["first", "second"], axis=0))
    apply("LpNormalization", [apply("Add", ["first", "second"], "together")], "embeddings", axis=1, p=2)
    return model_of("membra identity", nodes, kept, _TAKES, {"embeddings": ["n", len(weights["out.bias"])]})


def graph_of(weights: Weights) -> bytes:
    """Write the ONNX graph of these weights; their names decide the architecture."""
    return identity_graph(weights) if "stem.0.weight" in weights else autoencoder_graph(weights)


def weights_of(onnx: bytes) -> dict[str, NDArray[np.float32]]:
    """Read the weights of an ONNX file of membra, by name."""
    from onnx import load_model_from_string, numpy_helper

    return {each.name: numpy_helper.to_array(each) for each in load_model_from_string(onnx).graph.initializer}


def model_of(
    name: str, nodes: list[Any], kept: Iterable[tuple[str, NDArray[Any]]], takes: Shapes, gives: Shapes
) -> bytes:
    """Serialise nodes, and the tensors `kept` as their initialisers, to ONNX bytes, deterministically."""
    from onnx import TensorProto, helper, numpy_helper

    def values(shapes: Shapes) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    tensors = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in kept]
    graph = helper.make_graph(nodes, name, values(takes), values(gives), initializer=tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="membra")
    model.ir_version = 8
    return bytes(model.SerializeToString(deterministic=True))


def _tensor(weights: Weights, name: str) -> tuple[str, NDArray[np.float32]]:
    if name not in weights:
        raise Invalid(
            "these weights have no `{name}`: not an encoder of membra; train one with `membra train`", name=name
        )
    return name, np.asarray(weights[name], dtype=np.float32)
