import * as z from 'zod';
import { atMost } from './shape-check.ts';
import { anyObject, i32, u32, u64 } from './shared-fields.ts';

/** Vendor extensions of the OpenAI bodies. Unknown keys are refused. */
export const nvextSchema = z.strictObject({
  greed_sampling: z.boolean().nullish(),
  use_raw_prompt: z.boolean().nullish(),
  annotations: atMost(z.array(z.string()), 'names').nullish(),
  backend_instance_id: u64.nullish(),
  token_data: z.array(u32).nullish(),
  max_thinking_tokens: u32.nullish(),
  cache_salt: z.string().nullish(),
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
  // The older place of these root fields; the root value wins.
  ignore_eos: z.boolean().nullish(),
  top_k: i32.nullish(),
  repetition_penalty: z.number().nullish(),
  guided_json: z.unknown().optional(),
  guided_regex: z.string().nullish(),
  guided_grammar: z.string().nullish(),
  guided_choice: atMost(z.array(z.string()), 'guided_choices').nullish(),
  guided_decoding_backend: z.string().nullish(),
  guided_whitespace_pattern: z.string().nullish(),
});

export type Nvext = z.infer<typeof nvextSchema>;

/** Keys that moved to the body's root and are still read here, with a deprecation warning. */
export const MOVED_TO_ROOT = [
  'ignore_eos',
  'top_k',
  'repetition_penalty',
  'guided_json',
  'guided_regex',
  'guided_grammar',
  'guided_choice',
  'guided_decoding_backend',
  'guided_whitespace_pattern',
] as const satisfies readonly (keyof Nvext)[];
