import * as z from 'zod';
import { START_PHASES } from '../../protocol/index.ts';
import { count } from './count.ts';
import { worker } from './worker.ts';

/* The page of the fleet. */

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

const tokenPrice = z.object({ input_usd: z.number(), output_usd: z.number(), cached_usd: z.number() });

const model = z.object({
  name: z.string(),
  is_ready: z.boolean(),
  reason: z.string().nullable().describe('Why it is not ready.'),
  takes_chats: z.boolean(),
  context_tokens: count.describe('0 = unknown.'),
  workers: count,
  base_model: z.string().nullable().describe('Model that an adapter adapts.'),
  figures: figures.nullable().describe('Figures of the last minute; null if the model has none of its own.'),
  token_price: tokenPrice
    .nullable()
    .describe('US$ for a million tokens, from --token-prices; cached_usd = input that was cached; null = unknown.'),
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
    .array(z.object({ router_id: z.string(), bookings: count.describe('Its requests that workers have.') }))
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

export type ConsoleFigures = z.infer<typeof figures>;
export type ConsoleTokenPrice = z.infer<typeof tokenPrice>;
export type ConsoleModel = z.infer<typeof model>;
export type ConsoleColdStart = z.infer<typeof coldStart>;
export type ConsoleCost = z.infer<typeof cost>;
export type ConsoleFrontends = z.infer<typeof frontends>;
export type ConsoleStarting = z.infer<typeof starting>;
export type ConsoleHour = z.infer<typeof hourSchema>;
export type ConsoleFleet = z.infer<typeof fleetSchema>;
export type ConsoleChange = z.infer<typeof changeSchema>;
