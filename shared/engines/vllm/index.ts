/**
 * @module engines/vllm
 * vLLM behind its own HTTP server, started or attached: tokens in and out, KV events, load, adapters, sleep.
 */
export { startSecondaryVllm, vllm } from './launch.ts';
