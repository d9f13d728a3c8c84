/**
 * @module engines/mocker/kv-publisher
 * The mock engine's cache changes as vLLM publishes its own: ZeroMQ, msgpack, replay.
 */
export { EngineJournal } from './engine-journal.ts';
export { KvPublisher } from './kv-publisher.ts';
