#!/usr/bin/env python3
"""Write nodes/, quantised/ and microsoft/: small ONNX models with inputs and the answers of independent implementations.

nodes: cases of ONNX's own backend test suite, at most two an operator, those with small arrays; lists that say
axes, sizes or shapes are made constants.  microsoft: operators of com.microsoft, answered by ONNX Runtime.

    pip install onnx==1.19.1 onnxruntime==1.32.0 numpy==2.4.6
    python make_cases.py
"""
import json, os, re, shutil, struct

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, defs, helper as h, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "node")
NAMES = {"float32": "F32", "int64": "I64", "int32": "I32", "bool": "BOOL", "float16": "F16", "float64": "F64", "int8": "I8",
         "uint8": "U8", "int16": "I16", "uint16": "U16"}
CONSTANT = {"Resize": range(1, 4), "CumSum": [1], "OneHot": [1], "Range": [0, 1, 2], "Expand": [1], "TopK": [1], "Upsample": [1],
            "Slice": [1, 2, 3, 4], "Split": [1], "Tile": [1], "Pad": [1, 2, 3], "Reshape": [1], "Squeeze": [1], "Unsqueeze": [1],
            "ConstantOfShape": [0]}
LEFT_OUT = re.compile("training|qk_matmul|fp16|ceil_last_window|scales_(cubic|linear)_align|int8_float|default_mask|dropout_.*mask|stats|argmax_2d_precomputed_strides|maxpool_2d_uint8")
# Operators with several outputs of which not all are made.
FIRST_ONLY = {"LayerNormalization", "BatchNormalization", "Dropout"}


class Folder:
    def __init__(self, name):
        self.path, self.header, self.body, self.cases = os.path.join(HERE, name), {}, b"", []
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(os.path.join(self.path, "ops"))

    def put(self, case, name, a):
        a = np.asarray(a, order="C")
        bytes_ = a.tobytes()
        self.header[f"{case}/{name}"] = {"dtype": NAMES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [len(self.body), len(self.body) + len(bytes_)]}
        self.body += bytes_
        return {"name": name, "tensor": f"{case}/{name}", "shape": list(a.shape)}

    def add(self, case, model, inputs, outputs, tolerance):
        onnx.save(model, os.path.join(self.path, "ops", case + ".onnx"))
        self.cases.append({"name": case, "model": f"ops/{case}.onnx", "inputs": [self.put(case, k, a) for k, a in inputs],
                           "outputs": [self.put(case, k, a) for k, a in outputs], "tolerance": tolerance})

    def close(self):
        text = json.dumps(self.header).encode()
        text += b" " * (-len(text) % 8)
        open(os.path.join(self.path, "ops_io.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + self.body)
        json.dump({"cases": self.cases}, open(os.path.join(self.path, "ops.json"), "w"), indent=1)
        print(self.path, len(self.cases))


def tensor(folder, what, i):
    t = onnx.TensorProto()
    t.ParseFromString(open(os.path.join(folder, "test_data_set_0", f"{what}_{i}.pb"), "rb").read())
    return t


def nodes():
    folder, seen = Folder("nodes"), {}
    known = set(re.findall(r'\{"",\s*"(\w+)"', open(os.path.join(HERE, "../../../src/graph/onnx/onnx_rows.c")).read()))
    for name in sorted(os.listdir(SUITE)):
        at = os.path.join(SUITE, name)
        m = onnx.load(os.path.join(at, "model.onnx"))
        if len(m.graph.node) != 1 or LEFT_OUT.search(name):
            continue
        n = m.graph.node[0]
        if n.domain or n.op_type not in known or seen.get(n.op_type, 0) >= 2 or (n.op_type in FIRST_ONLY and len(n.output) > 1):
            continue
        version = max(o.version for o in m.opset_import if not o.domain)
        since = defs.get_schema(n.op_type, version, "").since_version
        if since > 23 or version < 7:
            continue
        for o in m.opset_import:  # the opset that defines this form
            o.version = min(max(since, 7), 23) if version > 23 else version
        try:
            given = [(v.name, tensor(at, "input", i)) for i, v in enumerate(m.graph.input)]
            outputs = [(v.name, numpy_helper.to_array(tensor(at, "output", i))) for i, v in enumerate(m.graph.output)]
            inputs = [(k, numpy_helper.to_array(t)) for k, t in given]
        except Exception:
            continue
        if any(str(a.dtype) not in NAMES or a.nbytes > 8192 for _, a in inputs + outputs):
            continue
        places = [1] if n.op_type.startswith("Reduce") else CONSTANT.get(n.op_type, [])
        fixed = {n.input[k] for k in places if k < len(n.input) and n.input[k]}
        for k, t in given:
            if k in fixed:
                t.name = k
                m.graph.initializer.append(t)
                del m.graph.input[[v.name for v in m.graph.input].index(k)]
        seen[n.op_type] = seen.get(n.op_type, 0) + 1
        folder.add(name.removeprefix("test_"), m, [x for x in inputs if x[0] not in fixed], outputs, "1e-5")
    folder.close()


rng = np.random.default_rng(7)
microsoft = None


def case(name, op, ins, attrs, n_out, const=(), domain="com.microsoft"):
    """ins: arrays, None for one left out; const: places of constants.  A first dimension of 2 is dynamic."""
    given, constants, feed, names = [], [], {}, []
    for i, a in enumerate(ins):
        names.append("" if a is None else f"x{i}")
        if a is None:
            continue
        if i in const:
            constants.append(numpy_helper.from_array(a, f"x{i}"))
            continue
        dims = ["b" if k == 0 and a.ndim > 1 and d == 2 else d for k, d in enumerate(a.shape)]
        given.append(h.make_tensor_value_info(f"x{i}", h.np_dtype_to_tensor_dtype(a.dtype), dims))
        feed[f"x{i}"] = a
    outs = [f"y{k}" for k in range(n_out)]
    graph = h.make_graph([h.make_node(op, names, outs, domain=domain, **attrs)], "g", given,
                         [h.make_tensor_value_info(o, T.FLOAT, None) for o in outs], constants)
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    for o in m.graph.output:
        o.type.tensor_type.ClearField("shape")
    got = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    microsoft.add(name, m, list(feed.items()), list(zip(outs, got)), "2e-5")


def quantised():
    """Weights of 8 bits behind DequantizeLinear, by ONNX Runtime without its optimiser."""
    folder = Folder("quantised")
    whole = lambda *s: rng.integers(-127, 127, s).astype(np.int8)
    real = lambda *s: rng.standard_normal(s).astype(np.float32)

    def model(name, chain, constants, x):
        graph = h.make_graph(chain, "g", [h.make_tensor_value_info("x", T.FLOAT, ["b"] + list(x.shape[1:]))],
                             [h.make_tensor_value_info("y", T.FLOAT, None)], [numpy_helper.from_array(a, k) for k, a in constants.items()])
        m = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        m.graph.output[0].type.tensor_type.ClearField("shape")
        how = ort.SessionOptions()
        how.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        y = ort.InferenceSession(m.SerializeToString(), how, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        folder.add(name, m, [("x", x)], [("y", y)], "1e-5")

    k, n = 12, 5
    for per_row in (0, 1):
        scale = np.abs(real(n)) + np.float32(0.01) if per_row else np.array(0.02, np.float32)
        zero = rng.integers(-5, 5, n).astype(np.int8) if per_row else np.array(3, np.int8)
        model(f"matmul_{per_row}", [h.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=1), h.make_node("MatMul", ["x", "wf"], ["y"])],
              {"w": whole(k, n), "s": scale, "z": zero}, real(2, k))
        model(f"gemm_{per_row}", [h.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0), h.make_node("Gemm", ["x", "wf", "b"], ["y"], transB=1)],
              {"w": whole(n, k), "s": scale, "z": zero, "b": real(n)}, real(2, k))
    q, d = "QuantizeLinear", "DequantizeLinear"
    model("both_sides", [h.make_node(q, ["x", "xs", "xz"], ["xq"]), h.make_node(d, ["xq", "xs", "xz"], ["xf"]), h.make_node(d, ["w", "s"], ["wf"], axis=1),
                         h.make_node("MatMul", ["xf", "wf"], ["m"]), h.make_node(q, ["m", "ys", "yz"], ["yq"]), h.make_node(d, ["yq", "ys", "yz"], ["y"])],
          {"xs": np.array(0.03, np.float32), "xz": np.array(120, np.uint8), "w": whole(k, n), "s": np.abs(real(n)) * np.float32(0.01) + np.float32(0.001),
           "ys": np.array(0.05, np.float32), "yz": np.array(128, np.uint8)}, real(2, k))
    model("embedding", [h.make_node(d, ["w", "s", "z"], ["wf"]), h.make_node("Cast", ["x"], ["i"], to=7), h.make_node("Gather", ["wf", "i"], ["y"])],
          {"w": whole(9, 4), "s": np.array(0.02, np.float32), "z": np.array(1, np.int8)}, np.array([[1, 2], [8, 0]], np.float32))
    folder.close()


def main():
    global microsoft
    nodes()
    quantised()
    microsoft = Folder("microsoft")
    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    case('skipln','SkipLayerNormalization',[f(2,3,8),f(2,3,8),f(8),f(8),f(8)],{'epsilon':1e-5},1,(2,3,4))
    case('skipsln','SkipSimplifiedLayerNormalization',[f(2,3,8),f(2,3,8),f(8)],{'epsilon':1e-5},1,(2,))
    case('biasgelu','BiasGelu',[f(2,3,8),f(8)],{},1,(1,))
    case('fastgelu','FastGelu',[f(2,3,8),f(8)],{},1,(1,))
    case('gelu','Gelu',[f(2,3,8)],{},1)
    case('quickgelu','QuickGelu',[f(2,3,8)],{'alpha':1.702},1)
    case('fusedmm','FusedMatMul',[f(2,3,4),f(2,5,4)],{'alpha':0.5,'transB':1},1)
    case('fusedmmA','FusedMatMul',[f(2,4,3),f(2,4,5)],{'alpha':0.5,'transA':1},1)
    case('att','Attention',[f(2,5,8),f(8,24),f(24)],{'num_heads':2},1,(1,2))
    case('att_uni','Attention',[f(2,5,8),f(8,24),f(24)],{'num_heads':2,'unidirectional':1},1,(1,2))
    case('att_mask','Attention',[f(2,5,8),f(8,24),f(24),np.array([[1,1,1,0,0],[1,1,1,1,1]],np.int32)],{'num_heads':2},1,(1,2))
    case('mha','MultiHeadAttention',[f(2,5,8),f(2,6,8),f(2,6,8)],{'num_heads':2},1)
    case('mha_bias','MultiHeadAttention',[f(2,5,8),f(2,6,8),f(2,6,8),f(24)],{'num_heads':2},1,(3,))
    case('mha_mask','MultiHeadAttention',[f(2,5,8),f(2,6,8),f(2,6,8),f(24),np.array([[1,1,1,0,0,0],[1,1,1,1,1,1]],np.int32)],{'num_heads':2},1,(3,))
    case('mha_ab','MultiHeadAttention',[f(2,5,8),f(2,6,8),f(2,6,8),None,None,f(1,2,5,6)],{'num_heads':2},1)
    case('mha_past','MultiHeadAttention',[f(2,1,8),f(2,1,8),f(2,1,8),None,None,None,f(2,2,3,4),f(2,2,3,4)],{'num_heads':2},3)
    case('mha_uni','MultiHeadAttention',[f(2,5,8),f(2,5,8),f(2,5,8)],{'num_heads':2,'unidirectional':1},1)
    half=8
    ang=np.outer(np.arange(16),1.0/10000**(np.arange(half)/half))
    c,s=np.cos(ang).astype(np.float32),np.sin(ang).astype(np.float32)
    case('rope','RotaryEmbedding',[f(2,5,32),np.tile(np.arange(5),(2,1)).astype(np.int64),c,s],{},1,(2,3))
    case('rope_first','RotaryEmbedding',[f(2,5,32),np.array([3],np.int64),c,s],{'interleaved':1},1,(2,3))
    case('rope4','RotaryEmbedding',[f(2,2,5,16),np.array([3],np.int64),c,s],{},1,(2,3))
    case('gqa_prompt','GroupQueryAttention',[f(2,5,32),f(2,5,16),f(2,5,16),f(2,1,0,16),f(2,1,0,16),np.array([4,4],np.int32),np.array(5,np.int32),c,s],{'num_heads':2,'kv_num_heads':1,'do_rotary':1},3,(5,6,7,8))
    case('gqa_step','GroupQueryAttention',[f(2,1,32),f(2,1,16),f(2,1,16),f(2,1,6,16),f(2,1,6,16),np.array([6,6],np.int32),np.array(7,np.int32),c,s],{'num_heads':2,'kv_num_heads':1,'do_rotary':1},3,(5,6,7,8))
    case('gqa_window','GroupQueryAttention',[f(2,5,32),f(2,5,16),f(2,5,16),f(2,1,0,16),f(2,1,0,16),np.array([4,4],np.int32),np.array(5,np.int32)],{'num_heads':2,'kv_num_heads':1,'local_window_size':3},3,(5,6))
    case('gqa_packed','GroupQueryAttention',[f(2,5,64),None,None,f(2,1,0,16),f(2,1,0,16),np.array([4,4],np.int32),np.array(5,np.int32),c,s],{'num_heads':2,'kv_num_heads':1,'do_rotary':1},3,(5,6,7,8))
    for bits in (4,8):
      for zp in (0,1):
        N,K,bs=6,40,16; nb=(K+bs-1)//bs
        B=rng.integers(0,256,(N,nb,bs*bits//8)).astype(np.uint8)
        case(f'nbits{bits}_{zp}','MatMulNBits',[f(2,3,K),B,np.abs(f(N*nb)).reshape(-1),rng.integers(0,256,N*((nb*bits+7)//8)).astype(np.uint8) if zp else None],{'K':K,'N':N,'bits':bits,'block_size':bs},1,(1,2,3))
    case('dqmm','DynamicQuantizeMatMul',[f(2,3,8),rng.integers(-127,127,(8,5)).astype(np.int8),np.array([0.02],np.float32),None,f(5)],{},1,(1,2,4))
    case('mmi2f','MatMulIntegerToFloat',[rng.integers(0,255,(3,8)).astype(np.uint8),rng.integers(0,255,(8,5)).astype(np.uint8),np.array([0.02],np.float32),np.array([0.03],np.float32),np.array([100],np.uint8),np.array([120],np.uint8),f(5)],{},1,(2,3,4,5,6))
    case('simpln','SimplifiedLayerNormalization',[f(2,3,8),f(8)],{'epsilon':1e-5,'axis':-1},1,(1,),domain='')
    microsoft.close()


main()
