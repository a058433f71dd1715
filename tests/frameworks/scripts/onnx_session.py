"""Sessions of ONNX Runtime with its CUDA provider: a transformer's layers, and convolutions.

Stands for: inference with ONNX Runtime, with host arrays and with values bound to the device. Each
weight has an allocation of its own: in the arena they share one, which is used as a whole.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.preload_dlls()
rng = np.random.default_rng(0)


def session(nodes, weights, x, y):
    kinds = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (x, y)
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "network", kinds[:1], kinds[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    made = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CUDAExecutionProvider"]
    )
    assert made.get_providers()[0] == "CUDAExecutionProvider", made.get_providers()
    return made


def normal(*shape):
    return rng.standard_normal(shape, "float32") / 30


weights, nodes, last = {}, [], "x"
for i in range(8):
    weights |= {
        f"w{i}": normal(768, 2048),
        f"v{i}": normal(2048, 768),
        f"s{i}": normal(768),
        f"b{i}": normal(768),
    }
    nodes += [
        helper.make_node("MatMul", [last, f"w{i}"], [f"h{i}"]),
        helper.make_node("Relu", [f"h{i}"], [f"r{i}"]),
        helper.make_node("MatMul", [f"r{i}", f"v{i}"], [f"m{i}"]),
        helper.make_node("Add", [f"m{i}", last], [f"a{i}"]),
        helper.make_node("LayerNormalization", [f"a{i}", f"s{i}", f"b{i}"], [f"y{i}"]),
    ]
    last = f"y{i}"
dense = session(nodes, weights, ("x", (1, 16, 768)), (last, (1, 16, 768)))
for number in range(4):
    (answer,) = dense.run(None, {"x": normal(1, 16, 768) + number})
    print("dense", number, answer.view("int32").sum(dtype="int64"))
binding = dense.io_binding()
binding.bind_ortvalue_input(
    "x", onnxruntime.OrtValue.ortvalue_from_numpy(normal(1, 16, 768), "cuda", 0)
)
binding.bind_output(last, "cuda")
dense.run_with_iobinding(binding)
print("bound", binding.copy_outputs_to_cpu()[0].view("int32").sum(dtype="int64"))
kernels = {"k": normal(64, 3, 3, 3), "l": normal(128, 64, 3, 3)}
images = session(
    [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "l"], ["e"], strides=[2, 2]),
        helper.make_node("ReduceMean", ["e"], ["y"], axes=[2, 3]),
    ],
    kernels,
    ("x", (2, 3, 32, 32)),
    ("y", (2, 128, 1, 1)),
)
print("images", images.run(None, {"x": normal(2, 3, 32, 32)})[0].view("int32").sum(dtype="int64"))
