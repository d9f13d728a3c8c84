/**
 * @module engines/kv-stream
 * The KV events of an engine, read from its ZeroMQ sockets: in order, each once, with what was missed asked for again.
 */
export { EventRelay, type EventRelayOptions } from './event-relay.ts';
export type { RankSource } from './event-source.ts';
