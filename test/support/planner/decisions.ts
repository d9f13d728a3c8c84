import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import {
  type PlannerConfig,
  type PlannerInput,
  type PlannerState,
  startPlanner,
  type Targets,
  type TrafficWindow,
  teach,
  tick as tickPlanner,
} from '../../../shared/planner/index.ts';
import type { LoopOutcome, LoopState } from '../../../shared/planner/loops.ts';
import type { TickInput } from '../../../shared/planner/types.ts';
import { readEngine, readPasses } from './passes.ts';
import { difference, differs, type Json, type PlannerRow, readRows } from './records.ts';

const POOLS = ['prefill', 'decode'] as const;

/** Returns the value of a pool. The name of an aggregated pool differs between fields. */
function poolOf(row: Json | undefined, pool: (typeof POOLS)[number]): unknown {
  return pool === 'decode' ? (row?.decode ?? row?.agg) : row?.prefill;
}

function perPool<T>(read: (pool: (typeof POOLS)[number]) => T | undefined): Partial<Record<(typeof POOLS)[number], T>> {
  return Object.fromEntries(
    POOLS.map((pool) => [pool, read(pool)] as const).filter(([, value]) => value !== undefined),
  );
}

function readTraffic(row: Json | undefined): TrafficWindow | undefined {
  if (row === undefined) return undefined;
  const { duration_s: seconds, num_req: requests, isl, osl, kv_hit_rate: kvHitRate, accept_length: acceptLength } = row;
  const window = {
    seconds,
    requests,
    isl,
    osl,
    kvHitRate: kvHitRate ?? undefined,
    acceptLength: acceptLength ?? undefined,
  };
  return window as TrafficWindow;
}

function readInput(nowS: number, tick: Json): TickInput {
  const said = (tick.counts ?? {}) as Json;
  const counts = perPool((pool) =>
    typeof said[`ready_num_${pool}`] !== 'number'
      ? undefined
      : {
          ready: said[`ready_num_${pool}`] as number,
          expected: said[`expected_num_${pool}`] as number | undefined,
          pending: said[`pending_num_${pool}`] as number | undefined,
          isScaling: said[`${pool}_scaling_in_progress`] as boolean | undefined,
        },
  );
  const passes = perPool((pool) => readPasses(poolOf(tick, pool)));
  return { nowS, counts, passes, traffic: readTraffic(tick.traffic as Json | undefined) };
}

function startOf(row: Json, config: PlannerConfig): PlannerState {
  const measured = perPool((pool) =>
    readPasses(poolOf(row.bootstrap as Json | undefined, pool))?.map((pass) => [pass]),
  );
  const history = ((row.history ?? []) as readonly Json[]).map((window) => readTraffic(window)!);
  return teach(startPlanner(0), config, measured, history);
}

/** Returns a decision in the fields of a record. */
function said(targets: Targets | undefined, outcome: LoopOutcome, state: LoopState, config: PlannerConfig): Json {
  const { load, throughput, demand } = outcome;
  const { prefill, decode } = throughput?.capacities ?? {};
  return {
    scale_to: targets && { prefill: targets.prefill ?? null, decode: targets.decode ?? null },
    load_reason: load?.reason,
    load_reason_prefill: load?.reasons.prefill,
    load_reason_decode: load?.reasons.decode,
    throughput_reason: throughput?.reason,
    throughput_reason_prefill: throughput?.reasons.prefill,
    throughput_reason_decode: throughput?.reasons.decode,
    lower_bound_prefill: state.floors.prefill ?? 1,
    lower_bound_decode: state.floors.decode ?? 1,
    estimated_ttft_ms: load?.estimatedTtftMs,
    estimated_itl_ms: load?.estimatedItlMs,
    predicted_num_req: demand?.requests,
    predicted_isl: demand?.isl,
    predicted_osl: demand?.osl,
    engine_rps_prefill: config.mode === 'agg' ? decode : prefill,
    engine_rps_decode: decode,
  };
}

/** Plays whole sequences of ticks. For a time without an entry, the last entry stays in force. */
function playDecisions(row: Json): readonly string[] {
  const config = parsePlannerConfig(row.config);
  const capabilities = row.capabilities as Json;
  const engines = perPool((pool) => {
    const engine = poolOf(capabilities, pool) as Json | undefined;
    return engine && readEngine(engine);
  });
  const ticks = row.ticks as readonly (Json & { readonly at: number })[];
  const expected = row.expect as readonly (Json & { readonly at: number })[];
  const failures: string[] = [];
  let state = startOf(row, config);
  let last = ticks[0]!;
  const endS = ticks.at(-1)!.at;
  for (let nowS = config.tickSeconds; nowS <= endS + 1e-9; nowS += config.tickSeconds) {
    const isNow = ({ at }: { readonly at: number }): boolean => Math.abs(at - nowS) < 1e-6;
    last = ticks.find(isNow) ?? last;
    const told = { ...readInput(nowS, last), started: undefined, held: 0, running: 0 } as PlannerInput;
    const played = tickPlanner(state, told, { config, engines });
    state = played.state;
    const { targets, loops } = played.effect;
    const want = expected.find(isNow);
    if (want === undefined) continue;
    for (const [name, got] of Object.entries(said(targets, loops ?? {}, state.loops, config))) {
      if (differs(got, want[name])) failures.push(difference(`at ${nowS} s, ${name}`, got, want[name]));
    }
  }
  return failures;
}

export function decisionRows(folder: string): readonly PlannerRow[] {
  return readRows(folder, 'decisions.jsonl').map((row) => ({
    id: `${row.id} ${row.name}`,
    play: () => playDecisions(row),
  }));
}
