import * as z from 'zod';
import { LIMITS } from '../../errors/index.ts';
import { atMost } from './shape-check.ts';

/** Lowest and highest value. */
export type Range = readonly [min: number, max: number];

/** Ranges of root fields, which are checked after the types, with messages of their own. */
export const RANGES = {
  temperature: [0, 2],
  top_p: [0, 1],
  min_p: [0, 1],
  frequency_penalty: [-2, 2],
  presence_penalty: [-2, 2],
  n: [1, 128],
  top_logprobs: [0, 20],
  logprobs: [0, 5],
  best_of: [0, 20],
  logit_bias: [-100, 100],
  images: [1, 10],
} as const satisfies Readonly<Record<string, Range>>;

/** Adds a range to the description of the API; the schema itself does not check it. */
export function ranged<Schema extends z.ZodType>(schema: Schema, [minimum, maximum]: Range): Schema {
  return schema.meta({ minimum, maximum });
}

/** Types of JSON fields as the wire contract names them. Bounds that have a message of their own are checked later. */
export const u32 = z.int().min(0).max(4_294_967_295);
export const i32 = z.int().min(-2_147_483_648).max(2_147_483_647);
/** Beyond 2^53 JavaScript keeps the nearest double, so `z.int()` cannot be used here. */
const i64 = z.number().refine((value) => Number.isInteger(value) && Math.abs(value) <= 2 ** 63, 'expected i64');
const u64 = z.number().refine((value) => Number.isInteger(value) && value >= 0 && value < 2 ** 64, 'expected u64');
export const anyObject = z.record(z.string(), z.unknown());

/**
 * Rule for the description of the API that `stream_options` belongs to streams; it is checked with a message of its
 * own.
 */
export const STREAM_OPTIONS_RULE = {
  if: { properties: { stream_options: { type: 'object' } }, required: ['stream_options'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { properties: { stream: { const: true } }, required: ['stream'] },
};

const streamOptions = z.looseObject({
  include_usage: z.boolean().nullish(),
  continuous_usage_stats: z.boolean().nullish(),
});

/** Number from 1; 0 is refused with a message of its own. */
export const positiveU32 = u32.meta({ minimum: 1 });

const stopLengths = { minItems: 1, maxItems: LIMITS.stops.max };
const stop = z.union([
  z.string().meta({ minLength: 1 }),
  z.array(z.string().meta({ minLength: 1 })).meta(stopLengths),
  z.array(u32).meta(stopLengths),
]);

export const reasoningEffort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);
export const serviceTier = z.enum(['auto', 'default', 'flex', 'scale', 'priority', 'fast']);

const notBlank = { pattern: '\\S' };
export const modelName = z.string().meta(notBlank);

const tokenIds = { type: 'array', items: { type: 'integer', minimum: 0, maximum: 4_294_967_295 } };
const orNull = { type: ['array', 'null'] };
const logitBias = {
  propertyNames: { pattern: '^(0|[1-9]\\d{0,9})$' },
  additionalProperties: { type: 'number', minimum: RANGES.logit_bias[0], maximum: RANGES.logit_bias[1] },
};

/** Constraints of an answer: root fields, which `nvext` still has too. */
const guidedFields = {
  guided_json: z.unknown().optional(),
  guided_regex: z.string().nullish(),
  guided_grammar: z.string().nullish(),
  guided_choice: atMost(z.array(z.string()), 'guided_choices').nullish(),
  guided_decoding_backend: z.string().nullish(),
  guided_whitespace_pattern: z.string().nullish(),
};

/** The same constraints in one field, as vLLM's clients send them. */
const structuredOutputs = z.looseObject({
  json: z.unknown().optional(),
  regex: z.string().nullish(),
  choice: atMost(z.array(z.string()), 'guided_choices').nullish(),
  grammar: z.string().nullish(),
  json_object: z.boolean().nullish(),
  structural_tag: z.unknown().optional(),
  whitespace_pattern: z.string().nullish(),
});

/** Root fields of both chat and completions. */
export const sharedFields = {
  structured_outputs: structuredOutputs.nullish(),
  model: modelName,
  stream: z.boolean().nullish(),
  stream_options: streamOptions.nullish(),
  temperature: ranged(z.number(), RANGES.temperature).nullish(),
  top_p: ranged(z.number(), RANGES.top_p).nullish(),
  frequency_penalty: ranged(z.number(), RANGES.frequency_penalty).nullish(),
  presence_penalty: ranged(z.number(), RANGES.presence_penalty).nullish(),
  logit_bias: anyObject.meta(logitBias).nullish(),
  max_tokens: positiveU32.nullish(),
  n: ranged(z.int().min(0).max(255), RANGES.n).nullish(),
  stop: stop.nullish(),
  seed: i64.nullish(),
  user: z.string().meta(notBlank).nullish(),
  top_k: i32.meta({ minimum: -1 }).nullish(),
  min_p: ranged(z.number(), RANGES.min_p).nullish(),
  repetition_penalty: z.number().meta({ exclusiveMinimum: 0, maximum: 2 }).nullish(),
  min_tokens: u32.nullish(),
  ignore_eos: z.boolean().nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  prompt_logprobs: u32.nullish(),
  ...guidedFields,
  return_tokens_as_token_ids: z.boolean().nullish(),
  cache_salt: z.string().nullish(),
  stop_token_ids: z
    .unknown()
    .meta({ ...tokenIds, ...orNull })
    .optional(),
  detokenize: z.boolean().nullish(),
  allowed_token_ids: z
    .unknown()
    .meta({ ...tokenIds, ...orNull })
    .optional(),
  bad_words_token_ids: z
    .unknown()
    .meta({ ...orNull, items: tokenIds })
    .optional(),
  thinking_token_budget: z.int().min(-1).max(4_294_967_295).nullish(),
  metadata: z.unknown().optional(),
};

const DURATION = /^(\d{1,6})(s|m|h|)$/;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, '': 1000 };
const CACHE_TTL_MS_MAX = 86_400_000;
const CACHE_TTL = '5m';

/** Returns a `cache_control.ttl` in milliseconds, 5 minutes if it is absent; undefined if it is invalid. */
export function cacheTtlMs(ttl: string | number | null | undefined): number | undefined {
  const [, count, unit = ''] = DURATION.exec(String(ttl ?? CACHE_TTL)) ?? [];
  const ms = Number(count) * (UNIT_MS[unit] ?? Number.NaN);
  return ms >= 1000 && ms <= CACHE_TTL_MS_MAX ? ms : undefined;
}

/** Vendor extensions of the OpenAI bodies. Unknown keys are refused. */
export const nvextSchema = z.strictObject({
  greed_sampling: z.boolean().nullish(),
  use_raw_prompt: z.boolean().nullish(),
  annotations: atMost(z.array(z.string()), 'names').nullish(),
  backend_instance_id: u64.nullish(),
  token_data: z.array(u32).nullish(),
  max_thinking_tokens: u32.nullish(),
  cache_salt: z.string().nullish(),
  /** From Dynamo's documentation: how long the prompt will be useful. */
  cache_control: z
    .strictObject({
      type: z.enum(['ephemeral']).nullish(),
      ttl: z
        .union([z.string(), z.number()])
        .refine(
          (ttl) => cacheTtlMs(ttl) !== undefined,
          'expected 1 s to 1 day, such as "5m", "1h" or a number of seconds',
        )
        .nullish(),
    })
    .nullish(),
  extra_fields: atMost(z.array(z.string()), 'names').nullish(),
  metadata_upload: z
    .strictObject({ url: z.string().refine((url) => url.trim() !== '', 'metadata_upload.url must not be empty') })
    .nullish(),
  prefill_worker_id: u64.nullish(),
  decode_worker_id: u64.nullish(),
  dp_rank: u32.nullish(),
  prefill_dp_rank: u32.nullish(),
  agent_hints: z
    .strictObject({
      priority: i32.nullish(),
      strict_priority: u32.nullish(),
      osl: u32.nullish(),
      speculative_prefill: z.boolean().nullish(),
      latency_sensitivity: z.number().nullish(),
    })
    .nullish(),
  request_timestamp_ms: z.number().nullish(),
  routing_constraints: z
    .strictObject({
      required_taints: atMost(z.array(z.string()), 'names').nullish(),
      preferred_taints: z.record(z.string(), z.number()).nullish(),
    })
    .nullish(),
  router: z.strictObject({ ttft_target: z.number().nullish(), itl_target: z.number().nullish() }).nullish(),
  // Documented, refused by 1.6.1, known here.
  session_control: z
    .strictObject({
      session_id: z.string(),
      action: z.enum(['bind', 'open', 'close']).nullish(),
      timeout: z.number().nullish(),
    })
    .nullish(),
  agent_context: anyObject.nullish(),
  // Older place of these root fields; the root value wins.
  ignore_eos: z.boolean().nullish(),
  top_k: i32.nullish(),
  repetition_penalty: z.number().nullish(),
  ...guidedFields,
});

export type Nvext = z.infer<typeof nvextSchema>;

/** Keys that moved to the body's root and are still read here, with a deprecation warning. */
export const MOVED_TO_ROOT = [
  'ignore_eos',
  'top_k',
  'repetition_penalty',
  ...Object.keys(guidedFields),
] as readonly (keyof Nvext)[];
