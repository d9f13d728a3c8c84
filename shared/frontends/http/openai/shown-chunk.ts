import { isRecord } from '../../../records/index.ts';

/**
 * A worker's own chunk as a client sees it that did not ask for usage: without it, and undefined where the chunk says
 * nothing else. Workers are always asked, since metrics and other dialects count by it.
 */
export function withoutUsage(body: unknown): unknown {
  if (!isRecord(body) || !('usage' in body)) return body;
  const { usage, ...rest } = body;
  const isOnlyUsage = isRecord(usage) && Array.isArray(body.choices) && body.choices.length === 0;
  return isOnlyUsage ? undefined : rest;
}

/** Whether a worker's own chunk tells what the answer has used. */
export function hasUsage(body: unknown): boolean {
  return isRecord(body) && isRecord(body.usage);
}
