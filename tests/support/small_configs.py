"""A small config.json of each family, with every width different, so that no two can be confused."""

from typing import Any

_LLAMA: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "vocab_size": 136,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LATENT = {
    "q_lora_rank": 20,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 14,
    "num_key_value_heads": 4,
}
_AFTER_DENSE = {
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "n_group": 2,
    "topk_group": 1,
}

SMALL: dict[str, dict[str, Any]] = {
    "llama": _LLAMA | {"model_type": "llama"},
    "llama, biased, tied, wide heads": _LLAMA
    | {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 16},
    "gpt2": {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 40, "vocab_size": 136},
    "gpt_neox": _LLAMA | {"model_type": "gpt_neox"},
    "mistral": _LLAMA | {"model_type": "mistral", "sliding_window": 5},
    "phi3": _LLAMA | {"model_type": "phi3"},
    "qwen2": _LLAMA | {"model_type": "qwen2"},
    "qwen3": _LLAMA | {"model_type": "qwen3", "head_dim": 16, "use_sliding_window": True, "max_window_layers": 1},
    "olmo2": _LLAMA | {"model_type": "olmo2"},
    "gemma": _LLAMA | {"model_type": "gemma", "head_dim": 16},
    "gemma2": _LLAMA | {"model_type": "gemma2", "head_dim": 16, "sliding_window": 5},
    "gemma3_text": _LLAMA | {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 5},
    "bert": _LLAMA | {"model_type": "bert"},
    "mixtral": _LLAMA | {"model_type": "mixtral", "num_local_experts": 6, "num_experts_per_tok": 2},
    "qwen2_moe": _LLAMA
    | {
        "model_type": "qwen2_moe",
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
        "mlp_only_layers": [1],
    },
    "qwen3_moe": _LLAMA
    | {
        "model_type": "qwen3_moe",
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "decoder_sparse_step": 2,
        "head_dim": 16,
    },
    "gpt_oss": _LLAMA
    | {"model_type": "gpt_oss", "num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 16, "sliding_window": 5},
    "deepseek_v3": _LLAMA | _LATENT | _AFTER_DENSE | {"model_type": "deepseek_v3", "attention_bias": True},
    "deepseek_v2": _LLAMA | _LATENT | _AFTER_DENSE | {"model_type": "deepseek_v2", "q_lora_rank": None},
    "kimi_k2": _LLAMA | _LATENT | _AFTER_DENSE | {"model_type": "kimi_k2"},
    "glm4_moe": _LLAMA | _AFTER_DENSE | {"model_type": "glm4_moe", "use_qk_norm": True, "attention_bias": True},
    "minimax_m2": _LLAMA
    | {"model_type": "minimax_m2", "num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 16},
    "ernie4_5_moe": _LLAMA
    | {
        "model_type": "ernie4_5_moe",
        "moe_num_experts": 6,
        "moe_k": 2,
        "moe_intermediate_size": 24,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": -1,
    },
    "nemotron_h": {name: value for name, value in _LLAMA.items() if name != "num_hidden_layers"}
    | {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-ME*",
        "head_dim": 16,
        "mamba_num_heads": 6,
        "mamba_head_dim": 10,
        "ssm_state_size": 8,
        "n_groups": 2,
        "conv_kernel": 4,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
    },
    "llama4_text": _LLAMA
    | {
        "model_type": "llama4_text",
        "intermediate_size_mlp": 56,
        "num_local_experts": 6,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "head_dim": 16,
        "attention_chunk_size": 32,
    },
}
DIFFUSION: dict[str, dict[str, Any]] = {
    "dit": {
        "_class_name": "DiTTransformer2DModel",
        "num_layers": 3,
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "in_channels": 4,
        "out_channels": 8,
        "patch_size": 2,
        "num_embeds_ada_norm": 10,
    },
}
