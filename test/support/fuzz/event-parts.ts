import { Packr } from 'msgpackr';
import { decodeEventBatch, EventBatchError } from '../../../shared/engines/kv-stream/engine-events.ts';
import { EventNormaliser } from '../../../shared/engines/kv-stream/event-normaliser.ts';
import { decodeEnvelope, decodeEnvelopeRecord } from '../../../shared/planes/event/envelope.ts';
import { MsgpackReader } from '../../../shared/planes/sliced-record.ts';
import { decodeActiveSequences } from '../../../shared/router-state/replica-sync.ts';
import { decodeRouterEvents } from '../../../shared/worker-events/kv-events.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const packr = new Packr({ useRecords: false });
const BLOCK_SIZE_TOKENS = 2;

/** Readers of events, which brokers pass on from any publisher. */
export const EVENT_PARTS: Readonly<Record<string, Part>> = {
  'event envelopes': (values) => {
    const record = { publisher_id: values.json(), sequence: values.json(), published_at: values.json(), topic: 'x' };
    const body = damaged(values, packed(values, { ...record, payload: values.chance(0.5) ? [1, 2] : values.json() }));
    mayRefuse(() => decodeEnvelopeRecord('x', body));
    mayRefuse(() => decodeEnvelope('x', { publisherId: values.bytes(9), sequence: values.bytes(9), body }));
  },
  'large records': (values) => {
    const record = values.json() ?? null;
    const bytes = damaged(values, packr.pack(record));
    const reader = new MsgpackReader(bytes, { views: values.chance(0.5), leading: values.chance(0.5) });
    mayRefuse(() => {
      while (!reader.read(1 + values.random.below(100)));
      if (reader.end > bytes.length) throw 'a record whose length exceeds its bytes';
    });
    const sliced = new MsgpackReader(bytes);
    mayRefuse(() => {
      while (!sliced.read());
    });
  },
  'router events': (values) => {
    const record = routerEvent(values);
    for (const { change, dpRank, workerId } of decodeRouterEvents(values.chance(0.8) ? [record] : record, () => {})) {
      if (!/^[0-9a-f]+$/.test(workerId) || !Number.isInteger(dpRank) || dpRank < 0) throw new Error('a wrong rank');
      if (change.kind === 'stored' && change.blockHashes.length !== change.tokensHashes.length)
        throw new Error('hashes that are not pairs');
    }
  },
  'requests of other routers': (values) => {
    const added = {
      token_sequence: values.one([[number(values)], values.bytes(16), values.json()]),
      ...values.one([{}, { prefill_load_hint: values.json() }]),
    };
    const data = values.one(['Free', 'MarkPrefillCompleted', { AddRequest: added }, values.json()]);
    const worker = values.one([{ worker_id: number(values), dp_rank: values.one([0, -1, 'x']) }, values.json()]);
    const event = { request_id: values.text(), worker, data, router_id: number(values), lora_name: values.json() };
    const payload = values.one([event, [event, values.json()], { events: [event] }, { events: values.json() }]);
    for (const { workerId, routerId } of decodeActiveSequences(payload, () => {})) {
      if (!/^[0-9a-f]+$/.test(workerId + routerId)) throw new Error('ids that are not hex');
    }
  },
  'engine events': (values) => {
    const tokens = [1, 2, 3, 4].slice(0, values.one([4, 4, 4, 3, 0]));
    const hashes = values.one([[1, 2], [values.bytes(40), values.bytes(40)], values.json()]);
    const rest = [
      values.json(),
      values.one(['GPU', 'CPU', values.text()]),
      values.json(),
      [values.json(), [values.json()]],
    ];
    const event = values.one([
      ['BlockStored', hashes, values.one([null, 1, values.json()]), tokens, BLOCK_SIZE_TOKENS, ...rest],
      { type: 'BlockStored', block_hashes: hashes, token_ids: tokens, block_size: 2, extra_keys: values.json() },
      ['BlockRemoved', hashes, values.json()],
      values.json(),
    ]);
    const payload = damaged(values, packr.pack([1.5, [event], values.one([null, 0, values.json()])]));
    const normaliser = new EventNormaliser({ dpRank: 0, blockSizeTokens: BLOCK_SIZE_TOKENS, onUnusable: () => {} });
    try {
      for (const each of decodeEventBatch(payload).events) normaliser.apply(each);
    } catch (error) {
      if (!(error instanceof EventBatchError || error instanceof RangeError)) throw error;
    }
  },
};

/** Runs a reader, which may only succeed or throw an `Error`. A later check refuses long input. */
function mayRefuse(read: () => unknown): void {
  try {
    const value = read();
    if (value instanceof Promise) value.catch(expectError);
  } catch (error) {
    expectError(error);
  }
}

function expectError(error: unknown): void {
  if (!(error instanceof Error)) throw error;
}

function routerEvent(values: HostileValues): object {
  const block = { block_hash: number(values), tokens_hash: number(values) };
  const stored = { parent_hash: number(values), blocks: values.chance(0.5) ? [block, block] : values.json() };
  const data = values.one([{ stored }, { removed: { block_hashes: [number(values)] } }, 'cleared', values.json()]);
  const event = { event_id: number(values), dp_rank: values.one([0, 1, 'x', -1]), data };
  return { worker_id: values.one([1, '2a', values.json()]), event: values.chance(0.8) ? event : values.json() };
}

/** Returns a message with events of a router in it, or with bytes that look like them. */
export function hostileEnvelope(values: HostileValues): Buffer {
  const payload = values.chance(0.8) ? packr.pack([routerEvent(values)]) : values.bytes(50);
  const record = {
    publisher_id: 0xc3,
    sequence: values.random.below(100),
    published_at: 1,
    topic: 'kv-events',
    payload,
  };
  return damaged(values, packr.pack(values.chance(0.9) ? record : values.json()));
}

function number(values: HostileValues): unknown {
  return values.one([1, '18446744073709551615', 2 ** 60, -1, 18446744073709551615n, values.json()]);
}

function packed(values: HostileValues, record: object): Buffer {
  return values.chance(0.5) ? packr.pack(record) : Buffer.from(JSON.stringify(record));
}

/** Returns `bytes` unchanged, cut off, or with some bytes changed. A changed length promises bytes that do not come. */
function damaged(values: HostileValues, bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  if (copy.length === 0 || values.chance(0.3)) return copy;
  for (let count = values.random.below(4); count > 0; count--) {
    copy[values.random.below(copy.length)] = values.one([0, 0xc1, 0xdd, 0xdf, 0xff, values.random.below(256)]);
  }
  return values.chance(0.3) ? copy.subarray(0, values.random.below(copy.length)) : copy;
}
