import { detailOf, workerError } from '../../errors/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { jsonOrText, type UpstreamMessage } from '../http/upstream.ts';
import { faultOfStatus, readFault } from '../http/upstream-errors.ts';
import type { EngineServer } from './dialect.ts';

/** The JSON object at `path`; undefined when the server has no such route or answers something else. */
export async function getRecord(server: EngineServer, path: string): Promise<UnknownRecord | undefined> {
  const { status, text } = await server.ask({ path });
  const body = status === 200 ? jsonOrText(text) : undefined;
  return asRecord(body);
}

/**
 * Tells the engine to do something.
 * @throws ServeError with the engine's own words when it does not
 */
export async function command(server: EngineServer, message: UpstreamMessage, timeoutMs?: number): Promise<string> {
  const { status, text } = await server.ask({ method: 'POST', ...message }, timeoutMs);
  if (status < 300) return text;
  const fault = readFault(jsonOrText(text), 'no message');
  if (status === 404 && fault.message === 'Not Found') {
    throw workerError('NotImplemented', `the engine has no ${message.path}`);
  }
  throw faultOfStatus(status, fault);
}

/** `load`, where an engine that has the adapter already counts as one that has loaded it: it may outlive its worker. */
export async function loadOnce(load: Promise<unknown>): Promise<void> {
  try {
    await load;
  } catch (error) {
    if (!/already (been )?loaded/i.test(detailOf(error))) throw error;
  }
}

export function asText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A positive whole number, also one that is written as text. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number > 0 ? number : undefined;
}
