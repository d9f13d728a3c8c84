import * as z from 'zod';
import { addressOf } from './keys.ts';
import type { DiscoveryRecord } from './records.ts';
import type { Bucket } from './types.ts';

// Loose objects: a newer process may write fields that this one does not know, and they must survive.
const name = z.string().min(1);
const addressed = {
  namespace: name,
  component: name,
  endpoint: name,
  instance_id: z.string().regex(/^[0-9a-f]{1,16}$/),
};
const workerType = z.enum(['aggregated', 'prefill', 'decode', 'encode']);
const card = z.looseObject({
  display_name: name,
  slug: z.string(),
  files: z.record(z.string(), z.looseObject({ path: z.string(), checksum: z.string(), size: z.number() })),
  kv_cache_block_size: z.number(),
  model_type: z.array(z.string()),
  model_input: z.enum(['Tokens', 'Text', 'Tensor']),
  worker_type: workerType,
  needs: z.array(z.array(workerType)),
  aliases: z.array(z.string()),
  runtime_config: z.looseObject({}),
});
const scope = z.discriminatedUnion('kind', [
  z.looseObject({ kind: z.literal('namespace'), namespace: name }),
  z.looseObject({ kind: z.literal('component'), namespace: name, component: name }),
  z.looseObject({ kind: z.literal('endpoint'), namespace: name, component: name, endpoint: name }),
]);
const requestTransport = z.union([
  z.object({ tcp: name }),
  z.object({ nats_tcp: name }),
  z.object({ memory: z.string() }),
]);
const record = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('Endpoint'), ...addressed, transport: requestTransport }),
  z.looseObject({ type: z.literal('Model'), ...addressed, card, model_suffix: name.optional() }),
  z.looseObject({
    type: z.literal('EventChannel'),
    scope,
    topic: name,
    instance_id: addressed.instance_id,
    transport: z.looseObject({ kind: z.enum(['Zmq', 'ZmqBroker', 'Nats', 'Memory']), config: z.looseObject({}) }),
  }),
]);

/** The stored form of a record. */
export function toText(value: DiscoveryRecord): string {
  return JSON.stringify(value);
}

/**
 * The record that `text` holds, or undefined when it is no record or belongs under another key: half-written files and
 * rows of other programs are told apart from data here and nowhere else.
 */
export function fromText(text: string, bucket: Bucket, key: string): DiscoveryRecord | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // half written; the caller keeps what it had
  }
  if (!isRecord(value)) return undefined;
  const address = addressOf(value);
  return address.bucket === bucket && address.key === key ? value : undefined;
}

function isRecord(value: unknown): value is DiscoveryRecord {
  return record.safeParse(value).success;
}
