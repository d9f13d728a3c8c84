/**
 * @module engines/openai
 * Any OpenAI-compatible server as an engine, streamed, by its URL. Text in and chunks out, both untouched; no KV events.
 */
export { createOpenAiEngine, type OpenAiEngineOptions, openai } from './openai-engine.ts';
