/**
 * Flags of `trtllm-serve`, releases 1.0 to 1.2, without their dashes, with `-` for its `_`. They tell a flag of the
 * engine from a misspelling of ours. Flags of other releases are passed on too.
 */
export const TRTLLM_FLAGS = `
  backend chat-template cluster-size config context-parallel-size cp-size custom-module-dirs custom-tokenizer
  disagg-cluster-uri enable-chunked-prefill ep-size extra-llm-api-options fail-fast-on-attention-window-too-large
  free-gpu-memory-fraction gpus-per-node host kv-cache-free-gpu-memory-fraction log-level max-batch-size max-beam-width
  max-num-tokens max-seq-len media-io-kwargs metadata-server-config-file moe-cluster-parallel-size
  moe-expert-parallel-size num-postprocess-workers otlp-traces-endpoint pipeline-parallel-size port pp-size
  reasoning-parser revision server-role tensor-parallel-size tokenizer tool-parser tp-size trust-remote-code
`;
