import * as z from 'zod';
import { START_PHASES } from '../protocol/index.ts';

/* Answers of /console/api. The OpenAPI document shows these schemas; the page is compiled against their types. */

const count = z.int().min(0);
const quantiles = z.object({ p50: z.number(), p95: z.number(), p99: z.number() });

const figures = z.object({
  running: count.describe('Requests under way at this frontend.'),
  requests_per_second: z.number(),
  tokens_per_second: z.number().describe('Output tokens.'),
  failed_share: z.number().nullable().describe('Failed requests among those that ended; null without any.'),
  hit_rate: z.number().nullable().describe('Prompt tokens that workers had cached, among all prompt tokens.'),
  ttft_ms: quantiles.nullable().describe('Time to the first token.'),
  itl_ms: quantiles.nullable().describe('Mean time between the output tokens of a request.'),
});

const model = z.object({
  name: z.string(),
  is_ready: z.boolean(),
  reason: z.string().nullable().describe('Why it is not ready.'),
  takes_chats: z.boolean(),
  context_tokens: count.describe('0 = unknown.'),
  workers: count,
  base_model: z.string().nullable().describe('Model that an adapter adapts.'),
  figures: figures.nullable().describe('Figures of the last minute; null if the model has none of its own.'),
});

const machine = z.object({
  instance_id: z.string(),
  instance_type: z.string().optional(),
  zone: z.string().optional(),
  market: z.string().optional(),
});

const worker = z.object({
  id: z.string().describe('Instance id, hex.'),
  model: z.string(),
  pool: z.enum(['aggregated', 'prefill', 'decode', 'encode']),
  endpoint: z.string().describe('namespace.component.endpoint'),
  state: z
    .enum(['ready', 'draining', 'stalled', 'standing'])
    .describe(
      'stalled = silent, no new requests until a canary passes; standing = a decode worker without prefill workers',
    ),
  ranks: count,
  device: z.string().nullable(),
  machine: machine.nullable(),
  requests: count.nullable().describe('Running and waiting requests of all frontends; null = not reported.'),
  kv_blocks: count.nullable().describe('KV blocks in use.'),
  kv_blocks_total: count.nullable(),
  prefill_tokens: count.nullable().describe('Prompt tokens not computed yet.'),
});

const coldStart = z.object({
  model: z.string(),
  requests: count.describe('Requests of this frontend that wait; after the end, the most that waited at once.'),
  since_ms: z.number().describe('Unix time at which the first of them came.'),
  ready_ms: z.number().nullable().describe('Unix time at which the model had a worker; null = not yet, or never.'),
  ended_ms: z.number().nullable().describe('Unix time from which none waited any more; null while some wait.'),
  phases: z.array(
    z.object({
      name: z
        .enum(['wait', 'decide', 'launch', ...START_PHASES])
        .describe(
          'wait = no planner is known; decide = until the planner decides; launch = until the agent of a machine speaks',
        ),
      from_ms: z.number().describe('Unix time.'),
      to_ms: z.number().nullable().describe('null while it lasts.'),
    }),
  ),
  note: z.string().nullable().describe('Why phases are missing, or workers do not come.'),
});

const starting = z.object({
  instance_id: z.string().describe('Machine.'),
  model: z.string(),
  phase: z.enum(START_PHASES),
  since_ms: z.number().describe('Unix time at which the phase began.'),
});

const starts = {
  cold_starts: z
    .array(coldStart)
    .describe('Waits for a first worker: those that last, then the last 8 that have ended.'),
  starting: z.array(starting).describe('Machines that start, as far as a planner tells this frontend.'),
};

const cost = z.object({
  hour_usd: z.number().nullable().describe('US$ an hour of the machines with a known price; null = none is known.'),
  types: z
    .array(
      z.object({
        type: z.string().nullable(),
        market: z.string().nullable(),
        machines: count,
        hour_usd: z.number().nullable().describe('Price of one machine; null = unknown.'),
      }),
    )
    .describe('Machines with workers, by type and market: at most 64.'),
  workers_without_machine: count.describe('Workers that do not state their machine: their cost is unknown.'),
});

const frontends = z.object({
  router_id: z.string().nullable().describe('Id of this frontend as a router, hex; null = it has none.'),
  worker_requests: count
    .nullable()
    .describe('Requests of all frontends that workers report, running and waiting; null = no worker reports any.'),
  others: z
    .array(z.object({ router_id: z.string(), requests: count.describe('Its requests at workers.') }))
    .nullable()
    .describe('Other routers that tell this one what they do, at most 64; null = routers do not tell each other.'),
  left_out: count.describe('Other routers beyond the first 64.'),
});

const series = z.array(z.number());
const gappySeries = z.array(z.number().nullable());

export const hourSchema = z.object({
  model: z.string().nullable().describe('Model whose hour it is; null = all, also if the wanted model has none.'),
  step_ms: count,
  end_ms: z.number().describe('Unix time of the end of the last step.'),
  requests_per_second: series,
  failed_per_second: series,
  tokens_per_second: series,
  ttft_p50_ms: gappySeries,
  ttft_p95_ms: gappySeries,
  itl_p50_ms: gappySeries,
  itl_p95_ms: gappySeries,
  workers: gappySeries.describe('Workers of all models.'),
});

export const fleetSchema = z.object({
  at_ms: z.number().describe('Unix time.'),
  frontend: z.object({
    version: z.string(),
    stage: z.string(),
    chat_path: z.string(),
    host: z.string().describe('Name of its machine.'),
    pid: count.describe('Number of its process.'),
  }),
  explains: z.boolean().describe('Whether the router can explain its decisions (mode kv).'),
  totals: figures,
  models: z.array(model),
  workers: z.array(worker),
  workers_left_out: count.describe('Workers beyond the first 4,096.'),
  ...starts,
  cost,
  frontends,
  hour: hourSchema,
});

export const changeSchema = z.object({
  at_ms: z.number(),
  stage: z.string(),
  totals: figures,
  models: z.array(model).describe('Models that have changed.'),
  models_gone: z.array(z.string()),
  workers: z.array(worker).describe('Workers that have changed in more than their load.'),
  workers_gone: z.array(z.string()),
  loads: z
    .array(z.tuple([z.string(), count.nullable(), count.nullable(), count.nullable()]))
    .describe('id, requests, kv_blocks and prefill_tokens of the workers whose load alone has changed.'),
  /* These come only if they have changed. */
  cold_starts: starts.cold_starts.optional(),
  starting: starts.starting.optional(),
  cost: cost.optional(),
  frontends: frontends.optional(),
});

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
  moves: count,
});

export const requestsSchema = z.object({
  requests: z.array(request).describe('The newest first.'),
  next: count.nullable().describe('Value of `before` for the next page; null = there are no older ones.'),
  kept: count.describe('Requests that this frontend remembers.'),
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

export const workerDetailSchema = z.object({
  worker,
  block_tokens: count.describe('Tokens of a KV block; 0 = unknown.'),
  cache: z
    .object({
      source: z
        .enum(['reported', 'predicted'])
        .describe('reported = by the worker; predicted = from the requests that this router has sent to it'),
      ranks: z.array(
        z.object({
          dp_rank: count,
          device_blocks: count,
          host_blocks: count,
          disk_blocks: count,
          is_whole: z.boolean().describe('Whether all blocks were looked at, or only the first 262,144.'),
          prefixes: z
            .array(
              z.object({
                hash: z.string().describe('Hash of its last block, hex.'),
                depth: count.describe('Blocks from the start of the prompt.'),
                below: count.describe('Cached blocks that continue it.'),
                branches: count.describe('Ways in which cached prompts continue it.'),
              }),
            )
            .describe('Prefixes with the most branches: at most 10.'),
        }),
      ),
    })
    .nullable(),
  no_cache: z.string().nullable().describe('Why nothing is known of its cache.'),
  requests: z
    .object({ count, hits: count.describe('Requests with cached tokens.'), prompt_tokens: count, cached_tokens: count })
    .describe('Sums over the requests that this frontend remembers and that the worker has answered.'),
});

const key = z.object({
  id: z.string(),
  name: z.string(),
  owner: z.string(),
  scopes: z.array(z.string()),
  models: z.array(z.string()).nullable().describe('null = all models.'),
  requests_per_minute: count.nullable().describe('Limit for each frontend process, like the next two; null = none.'),
  tokens_per_minute: count.nullable(),
  tokens_per_day: count.nullable(),
  used: z
    .object({ requests: count, tokens: count, tokens_today: count.describe('Since midnight in UTC.') })
    .nullable()
    .describe('Use at this frontend process since it started; null if it requires no keys.'),
  left: z
    .object({
      requests_per_minute: count.nullable(),
      tokens_per_minute: count.nullable(),
      tokens_per_day: count.nullable(),
    })
    .nullable()
    .describe('Rest of each limit at this frontend process; null if it requires no keys.'),
  created_ms: z.number(),
  expires_ms: z.number().nullable(),
  state: z.enum(['valid', 'expired', 'revoked']),
});

export const keysSchema = z.object({ keys: z.array(key).describe('The oldest first.') });
export const keySchema = key;
export const issuedKeySchema = z.object({ text: z.string().describe('The key, which is shown only now.'), key });

export const drainSchema = z.object({ ordered: z.array(z.string()).describe('Ids of the workers.') });

export type ConsoleFigures = z.infer<typeof figures>;
export type ConsoleModel = z.infer<typeof model>;
export type ConsoleWorker = z.infer<typeof worker>;
export type ConsoleColdStart = z.infer<typeof coldStart>;
export type ConsoleCost = z.infer<typeof cost>;
export type ConsoleFrontends = z.infer<typeof frontends>;
export type ConsoleStarting = z.infer<typeof starting>;
export type ConsoleWorkerDetail = z.infer<typeof workerDetailSchema>;
export type ConsoleHour = z.infer<typeof hourSchema>;
export type ConsoleFleet = z.infer<typeof fleetSchema>;
export type ConsoleChange = z.infer<typeof changeSchema>;
export type ConsoleRequest = z.infer<typeof request>;
export type ConsoleRequests = z.infer<typeof requestsSchema>;
export type ConsoleChangedRequests = z.infer<typeof changedRequestsSchema>;
export type ConsoleKey = z.infer<typeof key>;
export type ConsoleKeys = z.infer<typeof keysSchema>;
export type ConsoleIssuedKey = z.infer<typeof issuedKeySchema>;
export type ConsoleText = z.infer<typeof text>;
export type ConsoleRequestDetail = z.infer<typeof requestDetailSchema>;
