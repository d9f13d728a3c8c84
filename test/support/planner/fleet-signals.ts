import type { SentSignal } from '../../../shared/planner/decide/apply-signal.ts';
import { NO_TRAFFIC, type PlannerEventOf, type TrafficTotals } from '../../../shared/protocol/index.ts';

/** Time of the queue's clock when a story of these tests begins, in Unix seconds. */
export const BEGIN_S = 1_800_000_000;

const COMMON = { v: 1, namespace: 'ns', model: 'm' } as const;

export interface StoryOptions {
  /** Error of a worker's clock, in seconds. */
  readonly skewS?: (worker: number) => number;
  /** Requests per second at a second of the story. */
  readonly rate: (atS: number) => number;
  readonly workers: (atS: number) => number;
  readonly itlMs?: number;
}

/**
 * Returns the signals of the workers of a fleet, every five seconds from 0 to `untilS`. The first one says that the
 * worker begins.
 */
export function tellStory(untilS: number, { skewS = () => 0, rate, workers, itlMs = 20 }: StoryOptions): SentSignal[] {
  const told: SentSignal[] = [];
  const totals = new Map<number, { of: TrafficTotals; seq: number }>();
  for (let atS = 0; atS <= untilS; atS += 5) {
    const count = workers(atS);
    for (let worker = 0; worker < count; worker++) {
      const known = totals.get(worker) ?? { of: NO_TRAFFIC, seq: 0 };
      const started = known.seq === 0 ? 0 : Math.round((5 * rate(atS)) / count);
      const of = grown(known.of, started, itlMs);
      totals.set(worker, { of, seq: known.seq + 1 });
      const sentAtS = BEGIN_S + atS + worker / 1000;
      const signal = rollupOf(worker, known.seq, of, Math.round(1000 * (sentAtS + skewS(worker))));
      told.push({ signal, sentAtS });
    }
  }
  return told;
}

function grown(of: TrafficTotals, started: number, itlMs: number): TrafficTotals {
  return {
    ...of,
    started: of.started + started,
    completed: of.completed + started,
    isl_sum: of.isl_sum + 1000 * started,
    isl_count: of.isl_count + started,
    osl_sum: of.osl_sum + 100 * started,
    osl_count: of.osl_count + started,
    itl_sum_s: of.itl_sum_s + (started * 100 * itlMs) / 1000,
    itl_count: of.itl_count + started * 100,
    ttft_sum_s: of.ttft_sum_s + started * 0.2,
    ttft_count: of.ttft_count + started,
    dur_sum_s: of.dur_sum_s + started * 2.2,
    dur_count: of.dur_count + started,
  };
}

export function rollupOf(
  worker: number,
  seq: number,
  totals: TrafficTotals,
  at: number,
): PlannerEventOf<'worker.rollup'> {
  return {
    type: 'worker.rollup',
    ...COMMON,
    component: 'agg',
    worker_id: `w${String(worker).padStart(15, '0')}`,
    epoch: `e${worker}`,
    seq,
    at,
    totals,
    ranks: [{ dp_rank: 0, running: 3, waiting: 0, kv_blocks: 100, kv_blocks_max: 1000, prefill_tokens: 10 }],
    engine: { gpus: 1, kv_block_size: 64, max_kv_tokens: 64_000 },
    has_passes: false,
  };
}

export function heldAt(atS: number, seq: number, count = 1): SentSignal {
  const at = Math.round(1000 * (BEGIN_S + atS));
  const signal = {
    type: 'request.held',
    ...COMMON,
    source: 'edge',
    epoch: 'x',
    seq,
    held_count: count,
    oldest_at: at,
  } as const;
  return { signal, sentAtS: BEGIN_S + atS };
}

export function tickAt(atS: number, seq: number): SentSignal {
  const at = Math.round(1000 * (BEGIN_S + atS));
  return { signal: { type: 'tick', ...COMMON, source: 'clock', epoch: 't', seq, at }, sentAtS: BEGIN_S + atS };
}

export function changeAt(
  type: 'worker.registered' | 'worker.draining' | 'worker.gone',
  atS: number,
  worker: number,
  seq: number,
): SentSignal {
  const { worker_id, epoch } = rollupOf(worker, 0, NO_TRAFFIC, 0);
  const at = Math.round(1000 * (BEGIN_S + atS));
  return { signal: { type, ...COMMON, component: 'agg', worker_id, epoch, seq, at }, sentAtS: BEGIN_S + atS };
}
