import type { JetStreamManager } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/nats-core';
import { loadJetStream } from './library.ts';
import type { NatsLink } from './link.ts';

/** Longest wait for one answer of the JetStream API. */
const API_TIMEOUT_MS = 5000;

/** A connection with JetStream's interface on it. */
export interface JetStreamAccess {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
}

/** The connection of now, or the next one, with JetStream. Whether the server has JetStream shows at the first call. */
export async function openJetStream(link: NatsLink, signal: AbortSignal): Promise<JetStreamAccess> {
  const { jetstreamManager } = await loadJetStream();
  const connection = await link.connection(signal);
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  return { connection, manager };
}

/** Code of a failure that the JetStream API told; undefined for any other. */
export function apiCodeOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === 'number' ? code : undefined;
}

export const STREAM_NOT_FOUND = 10059;
export const MESSAGE_NOT_FOUND = 10037;
export const WRONG_LAST_SEQUENCE = 10071;
