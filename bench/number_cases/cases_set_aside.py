"""Cases of the models that thresholds are scored on.

Where a bug first shows was decided from the code, before any check ran.
"""

from bench.number_cases.case import SINGLE, CasesOf, Claim, NumbersCase

LOW: Claim = "lower precision"
ATTENTION = ("activation blocks.0.attention.out", "activation blocks.0.attention")

_diffusion = CasesOf(model="diffusion")
MODULATED = "activation blocks.0.attention.qkv"
PATCHES = "activation patches"
DIFFUSION: tuple[NumbersCase, ...] = (
    _diffusion.bug("time_period", "the longest period of the timestep embedding is 1000", "activation time_up"),
    _diffusion.bug("sine_before_cosine", "the timestep embedding has sines first", "activation time_up"),
    _diffusion.bug("bf16+times_in_bf16", "bf16, and timesteps are rounded too", "activation time_up", claimed=LOW),
    _diffusion.bug("scale_without_one", "adaLN multiplies by the scale, not by 1 + scale", MODULATED),
    _diffusion.bug("shift_and_scale_swapped", "shift and scale of adaLN are swapped", MODULATED),
    _diffusion.bug("gate_missing", "the MLP is not gated", "activation blocks.0"),
    _diffusion.bug("exact_gelu", "exact GELU in place of its tanh approximation", "activation blocks.0.down"),
    _diffusion.bug("layer_norm_eps", "eps of LayerNorm is 1e-5, not 1e-6", "activation blocks.0.norm1"),
    _diffusion.bug("softmax_over_queries", "softmax over the wrong dimension", *ATTENTION),
    _diffusion.bug("patches_transposed", "rows and columns within patches are swapped", "activation", "loss"),
    _diffusion.bug(
        "condition_detached",
        "the last layer sends no gradient to the condition",
        "gradient time_down.*",
        "gradient time_up.*",
        "gradient label.weight",
    ),
    _diffusion.bug("previous_time", "noise of the previous timestep", PATCHES),
    _diffusion.bug("square_root_missing", "shares of signal and noise without their roots", PATCHES),
    _diffusion.bug("same_noise_for_all", "one noise for all images of a batch", PATCHES),
    _diffusion.bug("mean_over_batch_only", "the loss is a sum over pixels", "loss"),
    _diffusion.bug("bf16+loss_in_bf16", "bf16, and the loss is computed in bf16", "loss", claimed=LOW),
    _diffusion.bug("average_swapped", "the exponential average keeps 0.1 of the old, not 0.9", PATCHES),
    _diffusion.bug("average_not_restored", "training goes on with averaged weights after an evaluation", PATCHES),
    _diffusion.bug("beta2", "beta2 of AdamW is 0.95, not 0.999", "movement *"),
    _diffusion.bug("adam_eps", "eps of AdamW is 1e-6, not 1e-8", "movement *"),
    _diffusion.harmless("manual_attention", "attention written out"),
    _diffusion.harmless("heads_in_batch", "attention by baddbmm with heads in the batch"),
    _diffusion.harmless("patches_by_unfold", "patches by unfold and a product"),
    _diffusion.harmless("addcmul", "adaLN by addcmul"),
    _diffusion.harmless("compiled_modulation", "torch.compile of adaLN"),
    _diffusion.harmless("unbound_modulation", "unbind in place of chunk", "bitwise"),
    _diffusion.harmless("frequencies_by_power", "frequencies by a power in place of exp"),
    _diffusion.harmless("schedule_in_fp64", "the noise schedule is computed in fp64"),
    _diffusion.harmless("loss_by_hand", "the mean of squares per image, then over images"),
    _diffusion.harmless("average_by_lerp", "the exponential average by lerp"),
    _diffusion.harmless("average_foreach", "the exponential average over lists of tensors"),
    _diffusion.harmless("checkpoint", "checkpointing of blocks", "bitwise"),
    _diffusion.harmless("fused", "fused AdamW"),
    _diffusion.harmless("foreach", "AdamW over lists of tensors"),
    _diffusion.harmless("zero_grad_to_zero", "zero_grad(set_to_none=False)", "bitwise"),
    _diffusion.harmless("threads", "2 threads"),
    _diffusion.harmless("bf16", "bf16 autocast", LOW),
    _diffusion.harmless("bf16+manual_attention+fused", "bf16 autocast, attention written out, fused AdamW", LOW),
)

_recurrent = CasesOf(model="recurrent")
ENCODER_GRADIENTS = ("gradient encoder.cell.*", "gradient encoder.embed.weight")
RECURRENT: tuple[NumbersCase, ...] = (
    _recurrent.bug("reset_before_product", "the reset gate comes before the product", "activation encoder.cell"),
    _recurrent.bug("update_gate_swapped", "the update gate is swapped", "activation encoder.cell"),
    _recurrent.bug(
        "padding_not_skipped",
        "the encoder goes on over padding",
        "activation encoder.cell.hidden",
        "activation encoder.cell",
        "activation encoder",
    ),
    _recurrent.bug("state_carried_over", "the state of the previous batch is kept", "activation encoder.cell.hidden"),
    _recurrent.bug("truncated_at_half", "the state is detached once in each sequence", *ENCODER_GRADIENTS),
    _recurrent.bug("states_detached", "attention sends no gradient to the encoder", *ENCODER_GRADIENTS),
    _recurrent.bug("padding_attended", "attention sees padding", "activation decoder.combine"),
    _recurrent.bug("attention_not_scaled", "scores are not divided", "activation decoder.combine"),
    _recurrent.bug("decoder_starts_empty", "the decoder starts from zeros", "activation decoder.cell.hidden"),
    _recurrent.bug("target_not_shifted", "the decoder sees the token that it predicts", "activation decoder.embed"),
    _recurrent.bug("padding_in_mean", "the mean of the loss counts padding", "loss"),
    _recurrent.bug("clipped_by_value", "gradients are clipped by value, not by norm", "gradient *", "movement *"),
    _recurrent.bug("clipped_by_module", "encoder and decoder are clipped apart", "gradient *", "movement *"),
    _recurrent.bug("amsgrad", "AMSGrad in place of Adam", "movement *"),
    _recurrent.bug("adam_eps", "eps of Adam is 1e-5, not 1e-8", "movement *"),
    _recurrent.bug(
        "bf16+padding_attended", "bf16, and attention sees padding", "activation decoder.combine", claimed=LOW
    ),
    _recurrent.harmless("library_cell", "torch.gru_cell with the same weights"),
    _recurrent.harmless("inputs_at_once", "inputs of all places in one product"),
    _recurrent.harmless("update_by_lerp", "the update gate by lerp"),
    _recurrent.harmless("masked_by_product", "padding is skipped by products in place of where"),
    _recurrent.harmless("checkpointed_cell", "checkpointing of the encoder's cell", "bitwise"),
    _recurrent.harmless("library_attention", "scaled_dot_product_attention"),
    _recurrent.harmless("einsum_attention", "scores by einsum"),
    _recurrent.harmless("large_negative_mask", "a large negative number in place of -inf"),
    _recurrent.harmless("loss_by_place", "the loss is summed place by place"),
    _recurrent.harmless("gathered_loss", "the loss by gather"),
    _recurrent.harmless("clipped_by_hand", "clipping written out"),
    _recurrent.harmless("fused", "fused Adam"),
    _recurrent.harmless("foreach", "Adam over lists of tensors"),
    _recurrent.harmless("zero_grad_to_zero", "zero_grad(set_to_none=False)", "bitwise"),
    _recurrent.harmless("threads", "2 threads"),
    _recurrent.harmless("bf16", "bf16 autocast", LOW),
)

_recommender = CasesOf(model="recommender")
TABLES = ("gradient tables.*.weight", "movement tables.*.weight")
RECOMMENDER: tuple[NumbersCase, ...] = (
    _recommender.bug("mean_of_bag", "a bag's mean in place of its sum", "activation tables.0"),
    _recommender.bug("offsets_off_by_one", "bags begin one item too early", "activation tables.0"),
    _recommender.bug("hash_modulus", "items are hashed to one row less", "activation tables.1"),
    _recommender.bug("sample_weights_ignored", "weights of items are ignored", "activation tables.2"),
    _recommender.bug("padding_row_trained", "the row of padding is trained", "gradient tables.*.weight"),
    _recommender.bug("embeddings_detached", "no gradient reaches the tables", *TABLES),
    _recommender.bug("pairs_in_other_order", "pairs of features in another order than trained", "activation top_up"),
    _recommender.bug("pooled_in_bf16", "sums of bags in bf16 in a job that claims fp32", "activation top_up"),
    _recommender.bug("features_not_logged", "dense features without their logarithm", "activation dense_up"),
    _recommender.bug("sigmoid_twice", "a sigmoid before the loss that has one", "loss"),
    _recommender.bug("positive_weight_lost", "clicks are not weighted", "loss"),
    _recommender.bug("table_left_out", "one table is not in the optimizer", "movement tables.1.weight"),
    _recommender.bug("accumulator_start", "accumulators of Adagrad start at 0.1", "movement *"),
    _recommender.bug("adagrad_eps", "eps of Adagrad is 1e-6, not 1e-10", "movement *"),
    _recommender.bug("accumulators_reset", "accumulators of Adagrad are lost after two steps", "movement *"),
    _recommender.bug("bf16_tables", "tables are bf16, without a master copy", "movement tables.*.weight", claimed=LOW),
    _recommender.bug("bf16+hash_modulus", "bf16, and items hashed to one row less", "activation tables.1", claimed=LOW),
    _recommender.harmless("embedding_and_index_add", "embedding and index_add in place of a bag"),
    _recommender.harmless("sparse_gradients", "sparse gradients of tables"),
    _recommender.harmless("sorted_bags", "items of a bag are sorted"),
    _recommender.harmless("interaction_by_einsum", "products of pairs by einsum"),
    _recommender.harmless("pairs_by_mask", "pairs are taken by a mask", "bitwise"),
    _recommender.harmless("log_by_hand", "log(1 + x) in place of log1p"),
    _recommender.harmless("loss_by_hand", "the loss by softplus"),
    _recommender.harmless("checkpointed_top", "checkpointing of the top layers", "bitwise"),
    _recommender.harmless("fused", "fused Adagrad"),
    _recommender.harmless("foreach", "Adagrad over lists of tensors"),
    _recommender.harmless("zero_grad_to_zero", "zero_grad(set_to_none=False)", "bitwise"),
    _recommender.harmless("threads", "2 threads"),
    _recommender.harmless("bf16", "bf16 autocast", LOW),
)

_ddp = CasesOf(model="ddp")
DDP: tuple[NumbersCase, ...] = (
    _ddp.bug("one_parameter_ignored", "DDP does not average one parameter", "gradient blocks.1.down.weight"),
    _ddp.bug(
        "unfrozen_after_wrapping", "a layer that was frozen when it was wrapped is not averaged", "gradient head.*"
    ),
    _ddp.bug("never_exchanged", "no_sync for the last micro-batch as well", "gradient *"),
    _ddp.bug("module_called_directly", "the wrapped module is called, not DDP", "gradient *"),
    _ddp.bug(
        "unclipped+summed_not_averaged",
        "a communication hook without division",
        "gradient *",
        reference="unclipped",
    ),
    _ddp.bug("reduced_in_bf16", "gradients are reduced in bf16 in a job that claims fp32", "gradient *"),
    _ddp.bug("averaged_twice", "the loss is divided by the number of ranks as well", "loss"),
    _ddp.bug("tokens_of_one_rank", "the mean is over the tokens of one rank", "loss"),
    _ddp.bug("same_data_on_both", "both ranks get the first rank's data", "activation embed"),
    _ddp.bug("different_start", "ranks start from different weights", "activation embed"),
    _ddp.bug("statistics_of_one_rank", "batch statistics of one rank", "activation norm"),
    _ddp.bug("bf16+statistics_of_one_rank", "bf16, and batch statistics of one rank", "activation norm", claimed=LOW),
    _ddp.bug("statistics_gradient_local", "gradients of batch statistics are not summed", "gradient conv.*"),
    _ddp.bug("clipped_before_average", "each rank clips before gradients are averaged", "gradient *", "movement *"),
    _ddp.bug(
        "one_micro_batch",
        "no accumulation, although batch statistics are those of micro-batches",
        "activation norm",
        "loss",
    ),
    _ddp.harmless("reference", "DDP against one process", reference=SINGLE),
    _ddp.harmless("small_buckets", "small buckets"),
    _ddp.harmless("bucket_views", "gradient_as_bucket_view", "bitwise"),
    _ddp.harmless("static_graph+exchanged_each_time", "static_graph, which does not allow no_sync at first"),
    _ddp.harmless("unused_looked_for", "find_unused_parameters", "bitwise"),
    _ddp.harmless("library_hook", "torch's all-reduce hook", "bitwise"),
    _ddp.harmless("exchanged_each_time", "no_sync is forgotten: more traffic, same sum"),
    _ddp.harmless("averaged_by_hand", "all_reduce per parameter in place of DDP"),
    _ddp.harmless("averaged_in_one_message", "one all_reduce of all gradients in place of DDP"),
    _ddp.harmless("seed_of_rank", "ranks make different weights, and DDP sends those of the first", "bitwise"),
    _ddp.harmless("buffers_not_broadcast", "forward_sync_buffers=False where buffers are equal anyway", "bitwise"),
    _ddp.harmless("statistics_in_one_message", "one message for all batch statistics"),
    _ddp.harmless("zero_redundancy", "ZeroRedundancyOptimizer", "bitwise"),
    _ddp.harmless("checkpoint", "checkpointing of blocks", "bitwise"),
    _ddp.harmless("fused", "fused AdamW"),
    _ddp.harmless("foreach", "AdamW over lists of tensors"),
    _ddp.harmless("zero_grad_to_zero", "zero_grad(set_to_none=False)", "bitwise"),
    _ddp.harmless("bf16", "bf16 autocast", LOW),
    _ddp.harmless("reduced_in_bf16", "bf16 reduction, and said so", LOW),
)

_tp = CasesOf(model="tp")
FIRST_DOWN = ("activation blocks.0.mlp.down", "activation blocks.0.mlp")
TP: tuple[NumbersCase, ...] = (
    _tp.bug("partial_not_reduced", "a partial sum is not reduced", *FIRST_DOWN, reference=SINGLE),
    _tp.bug("bias_on_every_rank", "each rank adds the bias to its part of a sum", *FIRST_DOWN, reference=SINGLE),
    _tp.bug("bf16+bias_on_every_rank", "bf16, and a bias is added twice", *FIRST_DOWN, claimed=LOW, reference=SINGLE),
    _tp.bug("shards_swapped", "two shards of a weight are swapped", *FIRST_DOWN, reference=SINGLE),
    _tp.bug("shard_reshaped", "a shard of a weight is reshaped, not transposed", *FIRST_DOWN, reference=SINGLE),
    _tp.bug("all_heads_on_each_rank", "half of the width is split into all heads", *ATTENTION, reference=SINGLE),
    _tp.bug(
        "vocabulary_off_by_one",
        "the first row of each shard of the table is lost",
        "activation embed",
        reference=SINGLE,
    ),
    _tp.bug(
        "seed_of_rank", "ranks make different weights where they are not split", "activation position", reference=SINGLE
    ),
    _tp.bug(
        "input_gradient_of_one_rank",
        "the gradient of a column-wise layer's input is not summed",
        "gradient blocks.1.norm2.*",
        reference=SINGLE,
    ),
    _tp.bug(
        "gradient_summed_twice",
        "the gradient of an all-reduce is all-reduced as well",
        "gradient blocks.1.mlp.down.weight",
        reference=SINGLE,
    ),
    _tp.bug(
        "norm_gradients_not_summed",
        "gradients of norms on parts of the sequence are not summed",
        "gradient blocks.?.norm2.*",
        reference=SINGLE,
    ),
    _tp.bug("sums_of_one_rank", "a loss over a split vocabulary sums over one rank", "loss", reference=SINGLE),
    _tp.bug("norm_of_one_rank", "each rank clips by its own norm", "gradient *", "movement *", reference=SINGLE),
    _tp.harmless("reference", "tensor parallel against one process", reference=SINGLE),
    _tp.harmless("sequence_parallel", "sequence parallel", reference=SINGLE),
    _tp.harmless("sequence_parallel_by_hand", "norms on parts of the sequence by hand", reference=SINGLE),
    _tp.harmless("rows_by_hand", "a row-wise layer by hand", reference=SINGLE),
    _tp.harmless("columns_by_hand", "a column-wise layer by hand", reference=SINGLE),
    _tp.harmless("embedding_by_hand", "a split table by hand", reference=SINGLE),
    _tp.harmless("mlp_only", "attention is not split", reference=SINGLE),
    _tp.harmless("attention_only", "the MLP is not split", reference=SINGLE),
    _tp.harmless("gathered_columns", "outputs of column-wise layers are gathered", reference=SINGLE),
    _tp.harmless("parallel_loss", "loss_parallel", reference=SINGLE),
    _tp.harmless("loss_by_hand", "a loss over a split vocabulary by hand", reference=SINGLE),
    _tp.harmless("manual_attention", "attention written out", reference=SINGLE),
    _tp.harmless("checkpoint", "checkpointing of blocks", reference=SINGLE),
    _tp.harmless("checkpoint", "checkpointing of blocks, against the same two ranks", "bitwise"),
    _tp.harmless("fused", "fused AdamW", reference=SINGLE),
    _tp.harmless("foreach", "AdamW over lists of tensors", reference=SINGLE),
    _tp.harmless("zero_grad_to_zero", "zero_grad(set_to_none=False), against the same two ranks", "bitwise"),
    _tp.harmless("bf16", "bf16 autocast", LOW, reference=SINGLE),
)

SET_ASIDE = (*DIFFUSION, *RECURRENT, *RECOMMENDER, *DDP, *TP)
