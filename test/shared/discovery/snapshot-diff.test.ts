import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import { fromText, toText } from '../../../shared/discovery/record-text.ts';
import { diffSnapshot, type KnownRecord } from '../../../shared/discovery/snapshot-watcher.ts';
import { channelOf, endpointAt, modelAt } from '../../contract/discovery/records.ts';

const parse = (key: string, text: string) => fromText(text, 'v1/instances', key);
const key = (id: number): string => `ns/c/e/${id}`;
const HALF_WRITTEN = '{"type":"Endp';

describe('diffSnapshot', () => {
  it('follows any sequence of readings as a naive model does', () => {
    // A reading maps some of 6 keys to a port, or to a text that is no record (undefined).
    const reading = fc.dictionary(fc.nat(5).map(key), fc.option(fc.nat(2), { nil: undefined }), {
      maxKeys: 6,
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(fc.array(reading, { maxLength: 8 }), (readings) => {
        let known: ReadonlyMap<string, KnownRecord> = new Map();
        let model = new Map<string, DiscoveryRecord>();
        const told = new Map<string, DiscoveryRecord>();
        for (const entries of readings) {
          const next = new Map<string, DiscoveryRecord>();
          const texts = new Map<string, string>();
          for (const [at, port] of Object.entries(entries)) {
            const record = port === undefined ? model.get(at) : endpointAt(at, `host:${port}`);
            if (record !== undefined) next.set(at, record);
            texts.set(at, port === undefined ? HALF_WRITTEN : toText(endpointAt(at, `host:${port}`)));
          }
          const diff = diffSnapshot(known, texts, parse);
          for (const event of diff.events) {
            if (event.kind === 'added') {
              expect(told.get(event.key)).not.toEqual(event.record); // nothing is told twice
              told.set(event.key, event.record);
            } else {
              expect(told.delete(event.key)).toBe(true);
            }
          }
          known = diff.known;
          model = next;
          expect(Object.fromEntries(told)).toEqual(Object.fromEntries(model));
        }
      }),
    );
  });

  it('tells removals before additions, each in key order', () => {
    const read = (ids: readonly number[]) => new Map(ids.map((id) => [key(id), toText(endpointAt(key(id)))]));
    const { known } = diffSnapshot(new Map(), read([9, 2, 5]), parse);
    const { events } = diffSnapshot(known, read([7, 5, 1]), parse);
    expect(events.map((event) => `${event.kind} ${event.key}`)).toEqual([
      `removed ${key(2)}`,
      `removed ${key(9)}`,
      `added ${key(1)}`,
      `added ${key(7)}`,
    ]);
  });

  it('does not parse an unchanged text again', () => {
    const texts = new Map([[key(1), toText(endpointAt(key(1)))]]);
    const { known } = diffSnapshot(new Map(), texts, parse);
    const again = diffSnapshot(known, texts, () => expect.unreachable());
    expect(again.events).toEqual([]);
  });
});

describe('fromText', () => {
  it('takes every kind of record back, with fields of a newer version', () => {
    const endpoint = { ...endpointAt('ns/c/e/1'), request_plane_codec: 'msgpack' };
    expect(fromText(JSON.stringify(endpoint), 'v1/instances', 'ns/c/e/1')).toEqual(endpoint);
    const model = modelAt('ns/c/e/1', 'lora');
    expect(fromText(toText(model), 'v1/mdc', 'ns/c/e/1/lora')).toEqual(model);
    const channel = channelOf({ kind: 'namespace', namespace: 'ns' }, 'kv-events', '1');
    expect(fromText(toText(channel), 'v1/event_channels', 'namespace/ns/topic/kv-events/1')).toEqual(channel);
  });

  it.each([
    ['half a text', HALF_WRITTEN],
    ['an empty text', ''],
    ['another type', '{"type":"Surprise"}'],
    ['null', 'null'],
    ['a record of another key', toText(endpointAt('ns/c/e/2'))],
    ['a numeric id', JSON.stringify({ ...endpointAt('ns/c/e/1'), instance_id: 1 })],
    ['a missing transport', JSON.stringify({ ...endpointAt('ns/c/e/1'), transport: {} })],
    ['a model card without its type', JSON.stringify({ ...modelAt('ns/c/e/1'), type: 'Endpoint' })],
  ])('refuses %s', (_, text) => {
    expect(fromText(text, 'v1/instances', 'ns/c/e/1')).toBeUndefined();
  });

  it.each<[string, Record<string, unknown>]>([
    ['as many ranks as no worker has', { runtime_config: { data_parallel_size: 1025 } }],
    ['no rank', { runtime_config: { data_parallel_size: 0 } }],
    ['half a rank', { runtime_config: { data_parallel_size: 1.5 } }],
    ['a first rank below none', { runtime_config: { data_parallel_start_rank: -1 } }],
    ['a context that is a text', { runtime_config: { context_length: '4096' } }],
    ['taints that are not texts', { runtime_config: { taints: [1] } }],
    ['more taints than a worker has', { runtime_config: { taints: Array.from({ length: 257 }, String) } }],
    ['a port out of range', { runtime_config: { disaggregated_endpoint: { bootstrap_port: 65_536 } } }],
    ['blocks of less than nothing', { kv_cache_block_size: -16 }],
    ['a file of no size', { files: { 'config.json': { path: '/dev/zero', checksum: 'sha256:0', size: -1 } } }],
    ['a name without end', { display_name: 'x'.repeat(1025) }],
    ['more text than a table holds', { user_data: 'x'.repeat(400_000) }],
  ])('refuses a card with %s', (_, fields) => {
    const model = modelAt('ns/c/e/1');
    const read = (card: object) => fromText(JSON.stringify({ ...model, card }), 'v1/mdc', 'ns/c/e/1');
    expect(read(model.card)).toEqual(model);
    expect(read({ ...model.card, ...fields })).toBeUndefined();
  });
});
