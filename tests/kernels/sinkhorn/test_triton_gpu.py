"""The Triton kernels compile for a GPU; `kernels/test_triton.py` runs their cases."""

import os

import pytest

pytest.importorskip("triton")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="only interprets")
@pytest.mark.parametrize("real", ["*fp32", "*fp64"])
@pytest.mark.parametrize("name", ["_row_kernel", "_column_kernel"])
def test_kernels_compile_for_a_gpu(name, real):
    """Without one: types and layouts that the interpreter does not look at."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from jsem_pyg.kernels.sinkhorn import triton_gpu

    kernel = getattr(triton_gpu, name)
    precision = "ieee" if real == "*fp64" else "tf32x3"
    constants = {"ROWS": 64, "COLUMNS": 64, "RANK": 32, "PRECISION": precision}
    constants |= {"CHANNELS": 16} if name == "_row_kernel" else {}
    integers = ("num_rows", "num_columns", "rank", "channels")
    types = {
        each: "constexpr" if each in constants
        else "i32" if each in integers
        else "*fp64" if each in ("z", "masses")
        else real
        for each in kernel.arg_names
    }  # fmt: skip
    compiled = compile(
        ASTSource(kernel, types, constants),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": 4, "num_stages": 2},
    )
    assert "ld.global" in compiled.asm["ptx"]
    assert ("tf32" in compiled.asm["ptx"]) == (real == "*fp32")
    assert "atom." not in compiled.asm["ptx"]
    assert compiled.metadata.shared <= 99 << 10  # what a small GPU has
