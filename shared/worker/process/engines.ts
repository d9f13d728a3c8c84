/**
 * The engines under the names that `--engine` takes (`shared/config/table/worker.ts`). To add one: a folder of
 * `shared/engines` with its `EngineKind`, its line below, its name there. That of the mock engine, which listens as its fleet does, is beside this file.
 */
export { openai, sglang, vllm } from '../../engines/index.ts';
export { mocker } from './mock-engine.ts';
