import { describe, expect, it } from 'vitest';
import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import { addressOf } from '../../../shared/discovery/keys.ts';
import { fromText } from '../../../shared/discovery/record-text.ts';
import { channelOf, endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { recordSchema } from './record-schema.ts';

type Loose = Record<string, unknown>;

const PATH = 'dynamo/backend/generate/2a';
const model = modelAt(PATH, 'adapter');
const tensor = { name: 'x', data_type: 'Int32', shape: [-1, 3], parameters: { any: [1] } };
/** A record of each kind with every field that is read. */
const WHOLE: readonly object[] = [
  endpointAt(PATH),
  channelOf({ kind: 'namespace', namespace: 'dynamo' }, 'kv-events', '2a'),
  channelOf({ kind: 'component', namespace: 'dynamo', component: 'backend' }, 'kv-events', '2a'),
  channelOf({ kind: 'endpoint', namespace: 'a', component: 'b', endpoint: 'c' }, 'kv-events', '2a'),
  {
    ...model,
    registered_at: 1_700_000_000,
    files_at: '10.0.0.1:9090/v1/metadata/tiny',
    card: {
      ...model.card,
      source_path: 'org/tiny',
      lora: { name: 'adapter', max_gpu_lora_count: 4 },
      architectural_max_context_length: 8192,
      needs: [['prefill', 'decode'], []],
      aliases: ['tiny'],
      tensor_model_config: { name: 'tiny', inputs: [tensor], outputs: [tensor], triton_model_config: [0, 255] },
      runtime_config: {
        context_length: 4096,
        total_kv_blocks: 1024,
        max_num_seqs: 256,
        max_num_batched_tokens: 8192,
        tool_call_parser: 'hermes',
        reasoning_parser: 'qwen3',
        default_thinking_mode: 'enabled',
        sampling_defaults: {
          temperature: 0.6,
          top_p: 0.95,
          top_k: 20,
          min_p: 0,
          repetition_penalty: 1.05,
          max_tokens: 9,
        },
        tokenizer_backend: 'fast',
        exclude_tools_when_tool_choice_none: true,
        data_parallel_start_rank: 0,
        data_parallel_size: 2,
        enable_local_indexer: false,
        kv_event_publishing_enabled: true,
        taints: ['spot'],
        topology_domains: { zone: 'a' },
        kv_transfer_domain: 'zone',
        kv_transfer_enforcement: 'preferred',
        kv_transfer_preferred_weight: 0.5,
        route_to_encoder: false,
        stable_routing_id: 'w1',
        disaggregated_endpoint: { bootstrap_host: 'h', bootstrap_port: 65_535 },
      },
    },
  },
];

const texts = [0, 1, 16, 17, 255, 1024, 1025, 2048, 2049, 4096, 4097].map((length) => '2'.repeat(length));
const words = [
  'decode',
  'Tensor',
  'required',
  'disabled',
  'Nats',
  'namespace',
  'Endpoint',
  'Model',
  'EventChannel',
  'AB',
];
const addresses = [
  'h:1/v1/metadata/m',
  'h:123456/v1/metadata/m',
  'h:1/v1/metadata/',
  'h:1/v1/metadata/m?q',
  'u@h:1/v1/metadata/m',
];
const edges = [0, 1, 255, 1024, 65_535, 65_536, 2 ** 20, 2 ** 50, 2 ** 53].flatMap((edge) => [
  edge - 1,
  edge,
  edge + 1,
]);
const lists = [0, 256, 257].flatMap((length) => [Array(length).fill(1), Array(length).fill('decode')]);
/** For the one list that may be that long. */
const LONG: readonly unknown[] = [65_536, 65_537].map((length) => Array(length).fill(1));
const others = [
  null,
  true,
  -2,
  0.5,
  1.5,
  {},
  { length: { toString: 1 } },
  { x: 1 },
  { x: 'y' },
  { '': 'y' },
  { x: 'y', z: 'y' },
];
const VALUES: readonly unknown[] = [...texts, ...words, ...addresses, ...edges, ...lists, ...others];

/** Every place in `value` as a list of names, and in each record an unknown one. */
function placesIn(value: unknown, at: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [at];
  const unknown = Array.isArray(value) ? [] : [[...at, 'unknown']];
  return [at, ...unknown, ...Object.entries(value).flatMap(([name, each]) => placesIn(each, [...at, name]))];
}

/** A copy of `record` with `value` at `place`; nothing there where it is undefined. */
function changed(record: object, place: readonly string[], value: unknown): unknown {
  if (place.length === 0) return value ?? {};
  const copy = structuredClone(record) as Loose;
  const holder = place.slice(0, -1).reduce<Loose>((inner, name) => inner[name] as Loose, copy);
  const last = place.at(-1)!;
  if (value === undefined) delete holder[last];
  else holder[last] = value;
  return copy;
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 80);
}

/** Whether the reader takes it, under its own key where it has one. */
function takes(value: unknown): boolean {
  const { bucket, key } = given(() => addressOf(value as DiscoveryRecord)) ?? addressOf(endpointAt(PATH));
  return fromText(JSON.stringify(value), bucket, key) !== undefined;
}

/** Returns the result of `make`, or undefined if it throws: the schema and the address throw for some values that are not records. */
function given<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

describe('the text of a record', () => {
  it('is not ours if a name is an object with a length of its own', () => {
    const address = { component: 'b', endpoint: 'g', instance_id: '1' };
    const text = JSON.stringify({
      type: 'Endpoint',
      namespace: { length: { toString: 1 } },
      ...address,
      transport: { tcp: 'x' },
    });
    expect(fromText(text, 'v1/instances', 'x/b/g/1')).toBeUndefined();
  });

  it.each(WHOLE)('is a record with every field that is read: $type', (record) => {
    expect(recordSchema.safeParse(record).success).toBe(true);
    expect(takes(record)).toBe(true);
  });

  it('is a record exactly where the schema has one, whatever stands in whichever field', () => {
    for (const record of WHOLE) {
      for (const place of placesIn(record)) {
        for (const value of [undefined, ...VALUES, ...(place.includes('triton_model_config') ? LONG : [])]) {
          const other = changed(record, place, value);
          const isOne = given(() => recordSchema.safeParse(other).success) ?? false;
          if (takes(other) !== isOne)
            expect.unreachable(`${place.join('.')}: ${shown(value)} is ${isOne ? '' : 'not '}allowed`);
        }
      }
    }
  });
});
