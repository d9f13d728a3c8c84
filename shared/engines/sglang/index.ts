/**
 * @module engines/sglang
 * SGLang behind its own HTTP server, started or attached: tokens in and out, KV events, load, adapters, sleep.
 */
export { sglang } from './launch.ts';
