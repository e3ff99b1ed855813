"""An encoder's weights written as an ONNX graph, without torch: what training leaves and ONNX Runtime reads."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from membra.errors import MembraError
from membra.see.glyphs import PATCH

Weights = Mapping[str, NDArray[np.float32]]

# The convolutions of the autoencoder's encoder stand at these places of its torch Sequential; 7 is the linear layer.
_CONVOLUTIONS, _LINEAR = (0, 2, 4), 7
_OPSET = 17  # understood by every ONNX Runtime since 1.12


def autoencoder_graph(weights: Weights) -> bytes:
    """The encoder half of the sparse autoencoder as ONNX bytes: `patches` (n, 1, 64, 64) -> `embeddings` (n, d).

    `weights` are named as in the published code: `encoder_net.0.weight`, ...
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, kept, flow = [], [], "patches"
    for place in _CONVOLUTIONS:
        names = [f"encoder_net.{place}.weight", f"encoder_net.{place}.bias"]
        kept += [_tensor(weights, name) for name in names]
        nodes.append(
            helper.make_node(
                "Conv", [flow, *names], [f"conv{place}"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
            )
        )
        nodes.append(helper.make_node("Relu", [f"conv{place}"], [f"relu{place}"]))
        flow = f"relu{place}"
    nodes.append(helper.make_node("Flatten", [flow], ["flat"], axis=1))
    names = [f"encoder_net.{_LINEAR}.weight", f"encoder_net.{_LINEAR}.bias"]
    kept += [_tensor(weights, name) for name in names]
    nodes.append(helper.make_node("Gemm", ["flat", *names], ["embeddings"], transB=1))
    dimension = len(weights[names[1]])
    graph = helper.make_graph(
        nodes,
        "membra autoencoder",
        [helper.make_tensor_value_info("patches", TensorProto.FLOAT, ["n", 1, PATCH, PATCH])],
        [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["n", dimension])],
        initializer=[numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in kept],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="membra")
    model.ir_version = 8
    return bytes(model.SerializeToString(deterministic=True))


def _tensor(weights: Weights, name: str) -> tuple[str, NDArray[np.float32]]:
    if name not in weights:
        raise MembraError(f"these weights have no `{name}`: not an encoder of membra; train one with `membra train`")
    return name, np.asarray(weights[name], dtype=np.float32)
