"""Write the eye's weights as an ONNX graph, with folded norms, the colour transform and the sigmoid included."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.describe.graph import Shapes, Weights, model_of
from membra.see.eye import CELL, NEAR, NEAR_CELLS


def eye_graph(weights: Weights) -> bytes:
    """ONNX bytes: `photograph` (1, 3, h, w) in 0..1 -> `maps` (1, 2, h, w) and `fields` (1, 3, h / 16, w / 16)."""
    graph = _Graph(weights)
    apply, convolve = graph.apply, graph.convolve
    flow = apply("Relu", [convolve(_channels(graph), "stem", stride=2)], "stem.relu")
    half = apply("Relu", [convolve(flow, "second")], "second.relu")
    quarter = graph.block(half, "quarter", 2)
    eighth = graph.block(quarter, "eighth", 2)
    deep = graph.block(eighth, "deep", 3)
    flow = deep
    for number, beside in enumerate((eighth, quarter, half)):
        flow = apply("Relu", [convolve(flow, f"narrow.{number}")], f"narrow.{number}.relu")
        wide = graph.larger(flow, f"narrow.{number}.wide", 2.0, "nearest")
        flow = apply("Add", [wide, beside], f"join.{number}.sum")
        flow = apply("Relu", [convolve(flow, f"join.{number}")], f"join.{number}.relu")
    flow = apply("DepthToSpace", [convolve(flow, "maps_in")], "logits", blocksize=2, mode="CRD")
    apply("Sigmoid", [flow], "maps")
    apply("Identity", [convolve(deep, "fields_in")], "fields")
    gives: Shapes = {"maps": [1, 2, "height", "width"], "fields": [1, 3, "rows", "columns"]}
    return model_of("membra eye", graph.nodes, graph.kept.items(), {"photograph": [1, 3, "height", "width"]}, gives)


class _Graph:
    """The nodes in order and their constant tensors. Methods that add nodes return the name of the output."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.kept: dict[str, NDArray[np.float32 | np.int64]] = {}

    def apply(self, operation: str, inputs: list[str], *outputs: str, **options: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operation, inputs, outputs, **options))
        return outputs[0]

    def constant(self, name: str, values: Any, kind: type = np.float32) -> str:
        self.kept[name] = np.array(values, kind)
        return name

    def convolve(self, flow: str, name: str, *, stride: int = 1, dilation: int = 1) -> str:
        self.kept[f"{name}.weight"], self.kept[f"{name}.bias"] = folded(self.weights, name)
        size = self.kept[f"{name}.weight"].shape[2]
        return self.apply(
            "Conv",
            [flow, f"{name}.weight", f"{name}.bias"],
            name,
            kernel_shape=[size, size],
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            pads=[dilation * (size // 2)] * 4,
        )

    def block(self, flow: str, name: str, count: int) -> str:
        flow = self.apply("Relu", [self.convolve(flow, f"{name}.0", stride=2)], f"{name}.0.relu")
        for number in range(1, count):
            # with two further layers their dilations are 2 and 4
            dilation = 1 if count == 2 else 2**number
            more = self.convolve(flow, f"{name}.{number}", dilation=dilation)
            both = self.apply("Add", [flow, more], f"{name}.{number}.sum")
            flow = self.apply("Relu", [both], f"{name}.{number}.relu")
        return flow

    def larger(self, flow: str, name: str, factor: float, mode: str) -> str:
        scales = self.constant(f"{name}.scales", [1.0, 1.0, factor, factor])
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {}
        return self.apply("Resize", [flow, "", scales], name, mode=mode, **how)


def _channels(graph: _Graph) -> str:
    """Add the nodes of `channels` in eye_network.py."""
    apply, constant = graph.apply, graph.constant
    mixing = np.array([[0.299, 0.587, 0.114], [0.701, -0.587, -0.114], [-0.299, -0.587, 0.886]], np.float32)
    constant("mixing", mixing.reshape(3, 3, 1, 1))
    mixed = apply("Conv", ["photograph", "mixing"], "mixed", kernel_shape=[1, 1])
    constant("split", [1, 2], np.int64)
    apply("Split", [mixed, "split"], "luminance", "colour", axis=1)
    both = apply("Concat", ["luminance", apply("Mul", ["luminance", "luminance"], "square")], "both", axis=1)
    cells = apply("AveragePool", [both], "cells", kernel_shape=[CELL] * 2, strides=[CELL] * 2)
    around = {"kernel_shape": [NEAR_CELLS] * 2, "pads": [NEAR_CELLS // 2] * 4, "count_include_pad": 0}
    near = apply("AveragePool", [cells], "near", **around)
    constant("one", [1, 1], np.int64)
    apply("Split", [near, "one"], "mean", "mean_square", axis=1)
    variance = apply("Sub", ["mean_square", apply("Mul", ["mean", "mean"], "mean_mean")], "variance")
    spread = apply("Sqrt", [apply("Relu", [variance], "positive")], "deviation")
    spread = apply("Add", [spread, constant("floor", NEAR)], "spread")
    mean = graph.larger("mean", "mean_wide", float(CELL), "linear")
    spread = graph.larger(spread, "spread_wide", float(CELL), "linear")
    relative = apply("Div", [apply("Sub", ["luminance", mean], "difference"), spread], "relative")
    doubled = apply("Mul", ["luminance", constant("two", 2.0)], "doubled")
    level = apply("Sub", [doubled, constant("unit", 1.0)], "level")
    return apply("Concat", [relative, level, apply("Mul", ["colour", "two"], "hue")], "channels", axis=1)


def folded(weights: Weights, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weight and bias of a convolution with its batch norm folded in, or of one with its own bias."""
    plain = name.removesuffix("_in")
    if f"{plain}.weight" in weights:
        return weights[f"{plain}.weight"], weights[f"{plain}.bias"]
    gain = weights[f"{name}.1.weight"] / np.sqrt(weights[f"{name}.1.running_var"] + 1e-5)
    bias = weights[f"{name}.1.bias"] - gain * weights[f"{name}.1.running_mean"]
    return (weights[f"{name}.0.weight"] * gain[:, None, None, None]).astype(np.float32), bias.astype(np.float32)
