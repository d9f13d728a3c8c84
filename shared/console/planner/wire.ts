import * as z from 'zod';

/* Answers of the planner's view of /console/api. */

const count = z.int().min(0);
const amount = z.number();
const byPool = z.record(z.string(), amount);

const config = z.object({
  law: z.string(),
  mode: z.string(),
  is_advisory: z.boolean().describe('Whether decisions are only said.'),
  ttft_ms: amount.describe('Target of the time to the first token.'),
  itl_ms: amount.describe('Target of the time between tokens.'),
  tick_seconds: amount,
  bounds: z.record(z.string(), amount).describe('Bounds that a question may change, by their key of --planner-config.'),
});

const point = z.object({
  step: count.describe('Number of the ten seconds in which it ends.'),
  at_ms: amount.describe('Unix time of its end.'),
  seconds: amount.describe('Time that it speaks of.'),
  requests_per_second: amount.nullable().describe('Requests that began; null = unknown.'),
  held_max: count.describe('Most requests that waited for a worker.'),
  running: amount.describe('Mean number of running requests.'),
  ttft_ms: amount.nullable(),
  itl_ms: amount.nullable(),
  forecast: byPool.describe('Requests a second that the law expects, by pool.'),
  need: byPool.describe('Workers that the law needs, before bounds and windows.'),
  capacity: byPool.describe('Requests a second that a worker serves within its targets.'),
  target: byPool.describe('Decided workers.'),
  workers: z
    .record(z.string(), byPool)
    .describe('Mean number of workers by phase, of each capacity option (decode/1-spot), or of each pool without any.'),
});

const decision = z.object({
  id: count,
  at_ms: amount,
  outcome: z
    .enum(['waiting', 'under_way', 'reached', 'overtaken', 'late', 'stalled', 'refused', 'advice'])
    .describe('late = not carried out in time; stalled = every option lacks capacity; refused = by the GPU budget'),
  outcome_words: z.string(),
  reason: z.string().describe('One sentence.'),
  problem: z.string().nullable(),
  previous: byPool.describe('Workers before it, by pool.'),
  targets: byPool,
  begun_ms: amount.nullable().describe('Unix time at which it began to be carried out.'),
  inputs: z.record(z.string(), z.union([amount, z.string()])).describe('Numbers behind it, by name.'),
  details: z.array(z.string()).describe('What became of it beyond its outcome.'),
});

const tick = z.object({
  at_ms: amount,
  reason: z.string(),
  inputs: z.record(z.string(), z.union([amount, z.string()])),
});

const head = {
  at_ms: amount.describe('Unix time.'),
  why_none: z.string().nullable().describe('Why no planner is shown, and how to start one; null if one is.'),
  problem: z.string().nullable().describe('Why the records could not be read just now.'),
  groups: z
    .array(z.object({ id: z.string(), namespace: z.string(), model: z.string() }))
    .describe('Models that a planner has decided for in the last week.'),
  groups_left_out: count.describe('Models beyond the first 256.'),
  group: z.string().nullable().describe('Model that is shown, by its id.'),
  config: config
    .nullable()
    .describe('Null for planners of earlier releases, and for those that keep it to themselves.'),
  tick: tick.nullable().describe('The latest tick that was recorded. A planner at rest records one a minute.'),
};

export const plannerSchema = z.object({
  ...head,
  points: z.array(point).describe('The last hour, in steps of ten seconds; steps without a record are left out.'),
  decisions: z.array(decision).describe('The last 100.'),
});

export const plannedSchema = z.object({
  ...head,
  points: z.array(point).describe('Points that are new or have changed.'),
  points_gone: z.array(count).describe('Steps of points that are gone.'),
  decisions: z.array(decision).describe('Decisions that are new or have changed.'),
  decisions_gone: z.array(count),
});

const bound = (low: number, high: number) => z.number().min(low).max(high).optional();
const wholeBound = (low: number, high: number) => z.int().min(low).max(high).optional();

/** Body of a question. The keys are those of `--planner-config`, with the same limits. */
export const whatIfBodySchema = z.strictObject({
  group: z.string().min(1).max(1024).optional(),
  min_endpoint: wholeBound(0, 100_000),
  prefill_min_endpoint: wholeBound(1, 100_000),
  decode_min_endpoint: wholeBound(1, 100_000),
  min_gpu_budget: wholeBound(-1, 1_000_000),
  max_gpu_budget: wholeBound(-1, 1_000_000),
  ttft_ms: bound(0.001, 3_600_000),
  itl_ms: bound(0.001, 3_600_000),
  rate_target_load: bound(0.001, 2),
  rate_requests_per_second: bound(0.000001, 1e6),
  rate_down_window_seconds: bound(0, 7200),
  rate_step_max: wholeBound(1, 100_000),
  start_seconds: bound(0.001, 604_800),
  idle_to_zero_seconds: bound(0, 604_800),
});

const answer = z.object({
  now: byPool.describe('Workers that serve or start.'),
  targets: byPool.describe('Workers that the next tick would want.'),
  decides: z.boolean().describe('Whether the next tick would make a decision.'),
  reason: z.string(),
  settled: byPool.nullable().describe('Workers once the windows that delay a change are over, if the demand stays.'),
  pools: z.record(
    z.string(),
    z.object({ need: amount, capacity: amount, demand: amount, limited_by: z.string().nullable() }),
  ),
});

export const whatIfSchema = z.object({
  at_ms: amount.describe('Unix time of the state that was asked.'),
  group: z.string(),
  present: answer.describe('Answer with the bounds as they are.'),
  other: answer.describe('Answer with the bounds of the question.'),
  notes: z.array(z.string()).describe('What the answers do not know.'),
  changed: z.literal(false).describe('A question changes nothing.'),
});

export type ConsolePlanner = z.infer<typeof plannerSchema>;
export type ConsolePlanned = z.infer<typeof plannedSchema>;
export type ConsolePoint = z.infer<typeof point>;
export type ConsoleDecision = z.infer<typeof decision>;
export type ConsolePlannerConfig = z.infer<typeof config>;
export type WhatIfBody = z.infer<typeof whatIfBodySchema>;
export type ConsoleWhatIf = z.infer<typeof whatIfSchema>;
export type ConsoleLawAnswer = z.infer<typeof answer>;
/** Part of the view that is sent whole with each event. */
export type ConsolePlannerHead = Omit<ConsolePlanner, 'points' | 'decisions'>;
