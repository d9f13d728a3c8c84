/**
 * The engines under the names that `--engine` takes (`shared/config/table/worker.ts`). To add one: a folder of
 * `shared/engines` with its `EngineKind`, its line below, its name there. Kinds that need more of a worker's process are beside this file.
 */
export { openai } from '../../engines/openai/index.ts';
export { mocker } from './mock-engine.ts';
export { sglang, vllm } from './server-engine.ts';
