"""Checks untrusted ONNX models before ONNX Runtime opens them."""

from math import prod

from membra.errors import Invalid

MAX_NUMBERS = 64_000_000  # in a weight, or between two layers for one patch: a hundred times those of encoders

# Operators of networks for small images. None of them expands small inputs to large outputs, or runs a nested graph.
KNOWN = frozenset(
    (
        *("Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Constant", "Conv", "Div"),
        *("Dropout", "Elu", "Erf", "Exp", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool"),
        *("GlobalMaxPool", "GroupNormalization", "HardSigmoid", "HardSwish", "Identity"),
        *("InstanceNormalization", "LayerNormalization", "LeakyRelu", "Log", "LpNormalization", "MatMul"),
        *("Max", "MaxPool", "Min", "Mul", "Neg", "PRelu", "Pow", "ReduceL2", "ReduceMax", "ReduceMean"),
        *("ReduceSum", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Slice", "Softmax", "Softplus", "Split"),
        *("Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Transpose", "Unsqueeze"),
    )
)


def check_graph(onnx: bytes) -> None:
    """Raise `Invalid` for an untrusted model that could do more than turn patches into vectors.

    ONNX Runtime executes what a model contains, in part on opening: it can read weights from other files, allocate
    gigabytes, or loop without end. An encoder needs none of this.
    """
    from onnx import TensorProto, load_model_from_string, shape_inference

    try:
        model = load_model_from_string(onnx)
    except Exception:  # of protobuf, by its implementation
        raise Invalid("not an ONNX model; give a .onnx or .safetensors file") from None
    graph = model.graph
    weights = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))]
    if any(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data for tensor in weights):
        raise Invalid("this model has weights in other files; save it as one file")
    if any(min(tensor.dims, default=1) < 0 or prod(tensor.dims) > MAX_NUMBERS for tensor in weights):
        raise Invalid("this model is not an encoder: its weights have implausible shapes")
    strange = {
        str(node.op_type) for node in graph.node if node.domain not in ("", "ai.onnx") or node.op_type not in KNOWN
    }
    if strange or model.functions or model.training_info or graph.sparse_initializer:
        if strange:
            names = ", ".join(sorted(strange))[:80]
            raise Invalid(
                "this model has operators that no encoder needs ({names}); export it with plain layers", names=names
            )
        raise Invalid("this model has functions, training information or sparse weights; export it with plain layers")
    try:
        known = shape_inference.infer_shapes(model).graph
    except Exception:  # contradictory shapes, which ONNX Runtime reports
        return
    for value in (*known.value_info, *known.output):
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim if size.HasField("dim_value")]
        if prod(sizes) > MAX_NUMBERS:
            raise Invalid(
                "this model is not an encoder: it returns {count} numbers for one patch", count=f"{prod(sizes):,}"
            )
