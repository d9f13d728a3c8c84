import * as z from 'zod';
import { count } from './count.ts';

/* The pages of requests. */

const request = z.object({
  number: count.describe('Number of the request at this frontend; later requests have larger ones.'),
  id: z.string().nullable().describe('Id by which its decision is explained; null before its body was read.'),
  x_request_id: z.string(),
  received_ms: z.number().describe('Unix time.'),
  endpoint: z.string(),
  model: z.string(),
  key: z.string().nullable().describe('Name of the API key.'),
  status: z.int().nullable().describe('null while it runs.'),
  error: z.string().nullable(),
  worker: z.string().nullable(),
  prompt_tokens: count.nullable(),
  cached_tokens: count.nullable(),
  output_tokens: count.nullable(),
  ttft_ms: z.number().nullable(),
  total_ms: z.number().nullable(),
  cost_usd: z
    .number()
    .nullable()
    .describe('US$ for its tokens by --token-prices; null while it runs, if the server failed it before its first token, or without a price.'),
  moves: count,
});

export const requestsSchema = z.object({
  requests: z.array(request).describe('The newest first.'),
  next: count.nullable().describe('Value of `before` for the next page; null = there are no older ones.'),
  kept: count.describe('Requests that this frontend remembers.'),
  has_costs: z.boolean().describe('Whether the price of any model is known.'),
});

export const changedRequestsSchema = z.object({
  requests: z.array(request).describe('Requests that are new or have changed, the newest first.'),
  left_out: count.describe('Changed requests that this event leaves out.'),
});

const text = z.object({
  prompts: count.describe('Prompts of the request; only the first one is shown.'),
  prompt: z
    .array(z.object({ role: z.string(), text: z.string(), is_cut: z.boolean() }))
    .readonly()
    .describe('The latest messages, in order. A prompt without messages is one of them.'),
  left_out: count.describe('Earlier messages that are not kept.'),
  answers: z.array(
    z.object({
      choice: count,
      text: z.string(),
      reasoning: z.string(),
      calls: z.array(z.object({ name: z.string(), arguments: z.string() })).describe('Calls of tools.'),
    }),
  ),
  is_cut: z.boolean().describe('Whether only the beginning of the answers is kept.'),
});

export const requestDetailSchema = z.object({
  request,
  stages: z.array(
    z.object({
      name: z.enum(['read', 'route', 'prefill', 'decode']),
      worker: z.string().nullable(),
      from_ms: z.number().describe('Milliseconds since the request came.'),
      to_ms: z.number().nullable().describe('null while it lasts.'),
    }),
  ),
  attempts: z.array(
    z.object({
      at_ms: z.number(),
      worker: z.string(),
      prefill_worker: z.string().nullable(),
      dp_rank: z.int().nullable(),
      prompt_tokens: count,
      cached_tokens: z.number().describe('As far as the router knew.'),
    }),
  ),
  moves: z.array(
    z.object({ at_ms: z.number(), from: z.string().nullable(), reason: z.string(), output_tokens: count }),
  ),
  decision: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('As /router/explain/{id} answers; null if none is known.'),
  no_decision: z.string().nullable().describe('Why there is no decision.'),
  text: text.nullable().describe('Prompt and answers; null unless `--console-show-prompts` is on.'),
  no_text: z.string().nullable().describe('Why there is no text.'),
});

export type ConsoleRequest = z.infer<typeof request>;
export type ConsoleRequests = z.infer<typeof requestsSchema>;
export type ConsoleChangedRequests = z.infer<typeof changedRequestsSchema>;
export type ConsoleText = z.infer<typeof text>;
export type ConsoleRequestDetail = z.infer<typeof requestDetailSchema>;
