/**
 * @module engines/vllm
 * vLLM behind its own HTTP server, started or attached: tokens in and out, KV events, load, adapters, sleep.
 */
export {
  createVllmEngine,
  type SecondaryNode,
  startSecondaryVllm,
  type VllmEngineOptions,
  type VllmLaunchSettings,
} from './launch.ts';
export { createMultimodalEngine, type MultimodalOptions } from './multimodal-engine.ts';
