"""What names in a trace mean: which kernels communicate and how, which regions are steps."""

import pytest

from redline.timeline.timeline import Kind
from redline.trace import schema

COMMUNICATION = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_reduce",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "all_reduce",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "broadcast",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_gather",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce_scatter",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send_receive",
    "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce",
    "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)": "all_reduce",
    "rcclGenericKernel<2, false>(ncclDevKernelArgsStorage<4096ul>)": "",
    "void dpsk::ep::internode::dispatch<false, 8, true>(int4*, float*)": "expert_dispatch",
    "void dpsk::ep::internode::combine<8, __nv_bfloat16>(int4*, float*)": "expert_combine",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)": "expert_dispatch",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(void*)": "expert_combine",
    "void deep_ep::internode::cached_notify<true, 4>(int, int)": "expert_dispatch",
    "nvshmemi_transfer_rma_p<float>": "",
    "void nvshmem_barrier_all_kernel()": "barrier",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)": "all_reduce",
    "void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)": "all_reduce",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot>": "all_reduce",
    "multimem_all_reduce_kernel<c10::BFloat16, 16>": "all_reduce",
    "one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>": "all_reduce",
    "two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>": "all_reduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, 2>": "all_reduce",
    "mscclKernel_AllReduce_Sum_half_LL": "all_reduce",
}

NOT_COMMUNICATION = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::reduce_something>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(T)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>>",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::gather_op>(int)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(long)",
    "void at::native::elementwise_kernel<128, 2, at::native::dispatch_cast>(int)",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>>(float*)",
    "void moe::dev::routing::dispatchKernel<int>",
    "void vllm::moe::topkGating<8, 256>(float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
    "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
    "triton_red_fused_mean_0",
    "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>",
    "step::internal::run",
    "deep::intranode_helper",
]


@pytest.mark.parametrize(("name", "collective"), COMMUNICATION.items())
def test_kernels_that_communicate_and_what_they_do(name: str, collective: str) -> None:
    assert schema.is_device_communication(name)
    assert schema.collective_of(name) == collective


@pytest.mark.parametrize("name", NOT_COMMUNICATION)
def test_kernels_that_only_sound_like_it(name: str) -> None:
    assert not schema.is_device_communication(name)


@pytest.mark.parametrize("name", ["gloo:all_reduce", "mpi:all_reduce", "ucc:allreduce"])
def test_cpu_backends_communicate_on_the_host(name: str) -> None:
    assert schema.is_host_communication(name)
    assert schema.is_backend_region(name)
    assert schema.collective_of(name) == "all_reduce"


@pytest.mark.parametrize("name", ["nccl:all_reduce", "rccl:all_reduce", "hccl:all_reduce", "aten::gloo:x"])
def test_regions_of_device_backends_are_not_the_work_itself(name: str) -> None:
    assert not schema.is_host_communication(name)
    assert schema.is_backend_region(name) == (not name.startswith("aten"))


@pytest.mark.parametrize(
    ("described", "collective"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("broadcast", "broadcast"),
        ("barrier", "barrier"),
        ("send", "send"),
        ("recv", "receive"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("init", ""),
        ("", ""),
    ],
)
def test_words_of_the_profilers_metadata(described: str, collective: str) -> None:
    assert schema.collective_of(described) == collective


def test_what_ends_together_has_no_root() -> None:
    assert {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"} == schema.ENDS_TOGETHER


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_12(4096)",
        "execute_128_context_1(8)_generation_3(3)",
        "execute_generation_5",
        "step[DECODE bs=32]",
    ],
)
def test_steps_of_serving_engines(name: str) -> None:
    assert schema.is_engine_step(name)


@pytest.mark.parametrize("name", ["execute_model", "steps[1]", "a step[", "ProfilerStep#1"])
def test_regions_that_are_no_steps_of_serving_engines(name: str) -> None:
    assert not schema.is_engine_step(name)


@pytest.mark.parametrize(
    ("name", "launches", "graph"),
    [
        ("cudaLaunchKernel", True, False),
        ("cudaLaunchKernelExC", True, False),
        ("cuLaunchKernel", True, False),
        ("hipModuleLaunchKernel", True, False),
        ("cudaMemcpyAsync", True, False),
        ("cudaMemsetAsync", True, False),
        ("cudaGraphLaunch", True, True),
        ("hipGraphLaunch", True, True),
        ("cudaStreamSynchronize", False, False),
        ("cudaEventRecord", False, False),
    ],
)
def test_calls_that_put_work_on_a_device(name: str, launches: bool, graph: bool) -> None:
    assert (schema.launches_work(name), schema.is_graph_launch(name)) == (launches, graph)


def test_every_kind_but_communication_is_written_in_a_category_that_is_read_as_that_kind() -> None:
    assert set(schema.CATEGORY_OF_KIND) == set(Kind) - {Kind.COMMUNICATION}
    for kind, category in schema.CATEGORY_OF_KIND.items():
        assert schema.kind_of(schema.canonical_category(category)) is kind


@pytest.mark.parametrize("info", [None, 5, "text", [], {"rank": 1}])
def test_distributed_info_is_a_mapping_or_nothing(info: object) -> None:
    assert schema.distributed_info({"distributedInfo": info}) == (info if isinstance(info, dict) else {})


# --- what holds up the host -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reads", "with_host", "pageable"),
    [
        ("Memcpy DtoH (Device -> Pageable)", True, True, True),
        ("Memcpy DtoH (Device -> Pinned)", True, True, False),
        ("Memcpy DtoH (Device -> Host)", True, True, False),
        ("Memcpy HtoD (Pageable -> Device)", False, True, True),
        ("CopyHostToDevice", False, True, False),
        ("Memcpy DtoD (Device -> Device)", False, False, False),
    ],
)
def test_copies_between_host_and_device(name: str, reads: bool, with_host: bool, pageable: bool) -> None:
    found = schema.is_read_from_device(name), schema.is_copy_with_host(name), schema.is_pageable_copy(name)
    assert found == (reads, with_host, pageable)


@pytest.mark.parametrize("name", ["cudaMalloc", "cudaFree", "hipMalloc", "hipFree", "cuMemCreate", "cuMemAlloc_v2"])
def test_calls_that_ask_the_driver_for_memory(name: str) -> None:
    assert schema.is_allocation(name)


@pytest.mark.parametrize("name", ["cudaMallocAsync", "cudaFreeHost", "cudaHostAlloc", "hipFreeAsync", "cudaMemset"])
def test_calls_that_do_not(name: str) -> None:
    assert not schema.is_allocation(name)


@pytest.mark.parametrize(
    "name",
    ["cudaHostAlloc", "cudaMallocHost", "cudaFreeHost", "cudaHostRegister", "hipHostFree", "cuMemHostRegister_v2"],
)
def test_calls_that_pin_memory_of_the_host(name: str) -> None:
    assert schema.is_pinning(name)


@pytest.mark.parametrize("name", ["cudaMalloc", "cudaHostGetDevicePointer", "cudaLaunchHostFunc", "cuMemcpyHtoD_v2"])
def test_calls_that_pin_nothing(name: str) -> None:
    assert not schema.is_pinning(name)


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("_compile.compile_inner (dynamo_timed)", True),
        ("entire_frame_compile", True),
        ("entire_backward_compile", True),
        ("compile_fx.<locals>.bw_compiler (dynamo_timed)", True),
        ("compile_fx_inner (dynamo_timed)", True),
        ("async_compile.wait", True),
        ("CachingAutotuner.benchmark_all_configs (dynamo_timed)", True),
        ("Torch-Compiled Region: 0/0", False),
        ("TorchDynamo Cache Lookup", False),
        ("## Call CompiledFxGraph fxbvz ##", False),
        ("CompiledFunction", False),
    ],
)
def test_compiling_and_what_was_compiled(name: str, compiles: bool) -> None:
    assert schema.is_compilation(name) is compiles


@pytest.mark.parametrize(
    ("name", "into", "back"),
    [
        ("torch::distributed::reducer::mul_out", True, False),
        ("torch::distributed::reducer::copy_", True, False),
        ("torch.distributed.ddp.reducer::copy_bucket_to_grad", False, True),
        ("torch.distributed.ddp.reducer::search_unused_parameters", False, False),
        ("aten::copy_", False, False),
    ],
)
def test_copies_of_ddp(name: str, into: bool, back: bool) -> None:
    assert (schema.copies_into_bucket(name), schema.copies_from_bucket(name)) == (into, back)


def test_regions_of_ddp() -> None:
    assert schema.is_ddp_forward("DistributedDataParallel.forward")
    assert not schema.is_ddp_forward("FullyShardedDataParallel.forward")
    assert schema.is_broadcast_region("nccl:broadcast")
    assert not schema.is_broadcast_region("nccl:all_reduce")
    assert not schema.is_broadcast_region("aten::broadcast_tensors")
    assert schema.is_optimizer_step("Optimizer.step#AdamW.step")
    assert not schema.is_optimizer_step("Optimizer.zero_grad#AdamW.zero_grad")
