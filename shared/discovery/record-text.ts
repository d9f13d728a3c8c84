import {
  anything,
  byField,
  fields,
  flag,
  fraction,
  listOf,
  maybe,
  oneOf,
  onlyFields,
  optional,
  recordOf,
  type Shape,
  text,
  whole,
} from '../records/index.ts';
import { addressOf, type Bucket } from './keys.ts';
import type { DiscoveryRecord, ModelCard } from './records.ts';

/* Newer processes may write fields that this one does not know, and they must survive. The fields that this one reads
   are limited here, because a faulty process may have written them. So later code need not doubt a record. */

/** Largest number of ranks of one worker: each costs a load, a queue and index entries in every router. */
const RANKS_MAX = 1024;
const ITEMS_MAX = 256;
const BYTES_MAX = 2 ** 50;
/**
 * Accepts a port of a status server, and nothing else with it, because the writer of a record decides which address is
 * called there.
 */
const FILES_AT = /^[^\s/?#@\\]{1,255}:\d{1,5}\/v1\/metadata\/[^\s?#\\]+$/;

const name = text(1, 1024);
const word = text(0, 1024);
const words = listOf(word, ITEMS_MAX);
const count = whole(0);
const instanceId = text(1, 16, /^[0-9a-f]+$/);
const wire = optional(oneOf('dynamo'));
const workerType = oneOf('aggregated', 'prefill', 'decode', 'encode');
const addressed = {
  namespace: name,
  component: name,
  endpoint: name,
  instance_id: instanceId,
  wire,
};

const positive = fraction(Number.MIN_VALUE, Number.MAX_VALUE);

const samplingDefaults = fields({
  temperature: optional(fraction(0, Number.MAX_VALUE)),
  top_p: optional(fraction(Number.MIN_VALUE, 1)),
  top_k: optional(whole(-1)),
  min_p: optional(fraction(0, 1)),
  repetition_penalty: optional(positive),
  presence_penalty: optional(fraction(-2, 2)),
  frequency_penalty: optional(fraction(-2, 2)),
  max_tokens: optional(whole(1)),
  max_tokens_limit: optional(whole(1)),
});

const runtimeConfig = fields({
  context_length: maybe(count),
  total_kv_blocks: maybe(count),
  max_num_seqs: maybe(count),
  max_num_batched_tokens: maybe(count),
  tool_call_parser: maybe(word),
  reasoning_parser: maybe(word),
  default_thinking_mode: maybe(oneOf('enabled', 'disabled')),
  sampling_defaults: maybe(samplingDefaults),
  tokenizer_backend: maybe(word),
  exclude_tools_when_tool_choice_none: maybe(flag),
  data_parallel_start_rank: maybe(whole(0, RANKS_MAX)),
  data_parallel_size: maybe(whole(1, RANKS_MAX)),
  enable_local_indexer: maybe(flag),
  kv_event_publishing_enabled: maybe(flag),
  enable_eagle: maybe(flag),
  taints: maybe(words),
  topology_domains: maybe(recordOf(word, word)),
  kv_transfer_domain: maybe(word),
  kv_transfer_enforcement: maybe(oneOf('required', 'preferred')),
  kv_transfer_preferred_weight: maybe(fraction(0, 1)),
  route_to_encoder: maybe(flag),
  media_chats: maybe(flag),
  engine_chats: maybe(text(1, 64)),
  stable_routing_id: maybe(word),
  disaggregated_endpoint: maybe(fields({ bootstrap_host: maybe(word), bootstrap_port: maybe(whole(0, 65_535)) })),
});

const tensors = listOf(
  onlyFields({
    name,
    data_type: word,
    shape: listOf(whole(-1), ITEMS_MAX),
    parameters: optional(recordOf(word, anything)),
  }),
  ITEMS_MAX,
);

const modelCardShape: Shape = fields({
  display_name: name,
  slug: word,
  source_path: optional(text(0, 4096)),
  files: recordOf(
    word,
    fields({ path: text(0, 4096), checksum: word, blake3: optional(word), size: whole(0, BYTES_MAX) }),
  ),
  architectural_max_context_length: maybe(count),
  kv_cache_block_size: whole(0, 2 ** 20),
  model_type: words,
  model_input: oneOf('Tokens', 'Text', 'Tensor'),
  worker_type: workerType,
  needs: listOf(listOf(workerType, ITEMS_MAX), ITEMS_MAX),
  aliases: words,
  runtime_config: runtimeConfig,
  tensor_model_config: maybe(
    onlyFields({
      name: word,
      inputs: tensors,
      outputs: tensors,
      triton_model_config: maybe(listOf(whole(0, 255), 65_536)),
    }),
  ),
  lora: optional(fields({ name, max_gpu_lora_count: maybe(count) })),
});

const SCOPES: Readonly<Record<string, Shape>> = {
  namespace: fields({ namespace: name }),
  component: fields({ namespace: name, component: name }),
  endpoint: fields({ namespace: name, component: name, endpoint: name }),
};

/** One address. Beside one of Dynamo's, there may be the codec of its payloads. */
const requestTransport: Shape = (value) => {
  if (!recordOf(name, name)(value)) return false;
  return Object.keys(value as object).filter((kind) => kind !== 'dynamo_codec').length === 1;
};

const fact = text(1, 128);
const hostFacts = fields({
  instance_id: fact,
  instance_type: optional(fact),
  zone: optional(fact),
  market: optional(fact),
  group: optional(fact),
  generation: optional(fact),
});

const endpoint = fields({
  ...addressed,
  transport: requestTransport,
  device_type: optional(word),
  refused: optional(word),
  host: optional(hostFacts),
});
const scope = byField('kind', SCOPES);

const RECORDS: Readonly<Record<string, Shape>> = {
  Endpoint: endpoint,
  Model: fields({
    ...addressed,
    registered_at: optional(count),
    card: modelCardShape,
    files_at: optional(text(0, 2048, FILES_AT)),
    model_suffix: optional(name),
  }),
  EventChannel: fields({
    scope,
    topic: name,
    instance_id: instanceId,
    wire,
    transport: fields({ kind: oneOf('Zmq', 'ZmqBroker', 'Nats', 'Memory'), config: fields({}) }),
  }),
  EventSource: fields({
    scope,
    topic: name,
    instance_id: instanceId,
    wire: oneOf('dynamo'),
    worker_id: optional(instanceId),
    dp_rank: optional(whole(0, RANKS_MAX)),
    kv_state_endpoint: optional(fields({ namespace: name, component: name, endpoint: name })),
    recovery_target: optional(endpoint),
  }),
};

const recordShape: Shape = byField('type', RECORDS);

const REFUSED = 'Refused';
const REFUSAL_LENGTH_MAX = 1000;
const REFUSAL_START = `{"type":"${REFUSED}","reason":`;

/** Longest text of a record. An item of a table holds 400 KB; a model card takes some of it. */
const TEXT_LENGTH_MAX = 400_000;

/** Returns the stored form of a record. */
export function toText(value: DiscoveryRecord): string {
  return JSON.stringify(value);
}

/**
 * Returns the record in `text`. Returns undefined if it is not a record, has values out of bounds, or belongs under
 * another key. This is the only check against half-written files, rows of other programs and output of faulty
 * processes.
 */
export function fromText(text: string, bucket: Bucket, key: string): DiscoveryRecord | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // half written; the caller keeps the previous record
  }
  if (!isRecord(value)) return undefined;
  const address = addressOf(value);
  return address.bucket === bucket && address.key === key ? value : undefined;
}

/** Returns the text that stands for a record that is refused, for a reason that operators should read. */
export function refusalText(reason: string): string {
  return JSON.stringify({ type: REFUSED, reason });
}

/** Returns the reason of a refused record; undefined for another text. */
export function refusalOf(text: string): string | undefined {
  if (!text.startsWith(REFUSAL_START) || text.length > REFUSAL_LENGTH_MAX) return undefined;
  try {
    return String((JSON.parse(text) as { readonly reason: unknown }).reason);
  } catch {
    return undefined; // `refusalText` did not make it
  }
}

/** Whether `value` is a model card within all bounds. */
export function isModelCard(value: unknown): value is ModelCard {
  return modelCardShape(value);
}

function isRecord(value: unknown): value is DiscoveryRecord {
  return recordShape(value);
}
