import * as z from 'zod';

/* What discovery takes as a record, as a schema: what its own, faster reader is held against. */

const RANKS_MAX = 1024;
const ITEMS_MAX = 256;
const BYTES_MAX = 2 ** 50;

const name = z.string().min(1).max(1024);
const word = z.string().max(1024);
const words = z.array(word).max(ITEMS_MAX);
const count = z.int().min(0);
const FILES_AT = /^[^\s/?#@\\]{1,255}:\d{1,5}\/v1\/metadata\/[^\s?#\\]+$/;
const flag = z.boolean().nullish();
const addressed = {
  namespace: name,
  component: name,
  endpoint: name,
  instance_id: z.string().regex(/^[0-9a-f]{1,16}$/),
};
const workerType = z.enum(['aggregated', 'prefill', 'decode', 'encode']);
const file = z.looseObject({ path: z.string().max(4096), checksum: word, size: count.max(BYTES_MAX) });
const runtimeConfig = z.looseObject({
  context_length: count.nullish(),
  total_kv_blocks: count.nullish(),
  max_num_seqs: count.nullish(),
  max_num_batched_tokens: count.nullish(),
  tool_call_parser: word.nullish(),
  reasoning_parser: word.nullish(),
  default_thinking_mode: z.enum(['enabled', 'disabled']).nullish(),
  sampling_defaults: z
    .looseObject({
      temperature: z.number().min(0).optional(),
      top_p: z.number().positive().max(1).optional(),
      top_k: z.int().min(-1).optional(),
      min_p: z.number().min(0).max(1).optional(),
      repetition_penalty: z.number().positive().optional(),
      presence_penalty: z.number().min(-2).max(2).optional(),
      frequency_penalty: z.number().min(-2).max(2).optional(),
      max_tokens: count.min(1).optional(),
      max_tokens_limit: count.min(1).optional(),
    })
    .nullish(),
  tokenizer_backend: word.nullish(),
  exclude_tools_when_tool_choice_none: flag,
  data_parallel_start_rank: count.max(RANKS_MAX).nullish(),
  data_parallel_size: count.min(1).max(RANKS_MAX).nullish(),
  enable_local_indexer: flag,
  kv_event_publishing_enabled: flag,
  taints: words.nullish(),
  topology_domains: z.record(word, word).nullish(),
  kv_transfer_domain: word.nullish(),
  kv_transfer_enforcement: z.enum(['required', 'preferred']).nullish(),
  kv_transfer_preferred_weight: z.number().min(0).max(1).nullish(),
  route_to_encoder: flag,
  stable_routing_id: word.nullish(),
  disaggregated_endpoint: z
    .looseObject({ bootstrap_host: word.nullish(), bootstrap_port: count.max(65_535).nullish() })
    .nullish(),
});
const tensorDescription = z.strictObject({
  name,
  data_type: word,
  shape: z.array(z.int().min(-1)).max(ITEMS_MAX),
  parameters: z.record(word, z.unknown()).optional(),
});
const tensorModelConfig = z.strictObject({
  name: word,
  inputs: z.array(tensorDescription).max(ITEMS_MAX),
  outputs: z.array(tensorDescription).max(ITEMS_MAX),
  triton_model_config: z.array(z.int().min(0).max(255)).max(65_536).nullish(),
});
const card = z.looseObject({
  display_name: name,
  slug: word,
  source_path: z.string().max(4096).optional(),
  files: z.record(word, file),
  architectural_max_context_length: count.nullish(),
  kv_cache_block_size: count.max(2 ** 20),
  model_type: words,
  model_input: z.enum(['Tokens', 'Text', 'Tensor']),
  worker_type: workerType,
  needs: z.array(z.array(workerType).max(ITEMS_MAX)).max(ITEMS_MAX),
  aliases: words,
  runtime_config: runtimeConfig,
  tensor_model_config: tensorModelConfig.nullish(),
  lora: z.looseObject({ name, max_gpu_lora_count: count.nullish() }).optional(),
});
const scope = z.discriminatedUnion('kind', [
  z.looseObject({ kind: z.literal('namespace'), namespace: name }),
  z.looseObject({ kind: z.literal('component'), namespace: name, component: name }),
  z.looseObject({ kind: z.literal('endpoint'), namespace: name, component: name, endpoint: name }),
]);
const requestTransport = z.record(name, name).refine((transport) => Object.keys(transport).length === 1);
export const recordSchema = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('Endpoint'), ...addressed, transport: requestTransport }),
  z.looseObject({
    type: z.literal('Model'),
    ...addressed,
    registered_at: count.optional(),
    card,
    files_at: z.string().max(2048).regex(FILES_AT).optional(),
    model_suffix: name.optional(),
  }),
  z.looseObject({
    type: z.literal('EventChannel'),
    scope,
    topic: name,
    instance_id: addressed.instance_id,
    transport: z.looseObject({ kind: z.enum(['Zmq', 'ZmqBroker', 'Nats', 'Memory']), config: z.looseObject({}) }),
  }),
]);
