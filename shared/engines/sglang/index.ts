/**
 * @module engines/sglang
 * SGLang behind its own HTTP server, started or attached: tokens in and out, KV events, load, adapters, sleep.
 */
export { createSglangEngine, type SglangEngineOptions, type SglangLaunchSettings } from './launch.ts';
