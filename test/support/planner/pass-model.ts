import {
  capacityOf,
  type EngineLimits,
  estimateItlMs,
  estimateTtftMs,
} from '../../../shared/planner/forward-pass/estimates.ts';
import type { PoolKind } from '../../../shared/planner/forward-pass/metrics.ts';
import { NO_PASSES, observePasses, type PassModel, passModel } from '../../../shared/planner/forward-pass/model.ts';
import { limitsOf } from '../../../shared/planner/laws/pools.ts';
import { readEngine, readPass } from './passes.ts';
import { difference, differs, type Json, type PlannerRow, readRows } from './records.ts';

function answer(kind: PoolKind, model: PassModel, limits: EngineLimits, query: Json): unknown {
  const options = (query.kw ?? {}) as Readonly<Record<string, number | null>> & { readonly [name: string]: unknown };
  const estimate = {
    kvHitRate: options.kv_hit_rate ?? undefined,
    queueScale: options.queue_scale ?? 1,
    decodeScale: options.decode_scale ?? 1,
    withQueuedDecode: options.include_queued_decode === (true as unknown),
    withQueuedPrefill: options.include_queued_prefill_as_kv === (true as unknown),
  };
  if (query.op === 'ttft') return estimateTtftMs(model, limits, readPass(query.fpm as Json), estimate);
  if (query.op === 'itl') return estimateItlMs(model, kind === 'aggregated', readPass(query.fpm as Json), estimate);
  const capacity = capacityOf(kind, model, limits, {
    isl: options.isl ?? 0,
    osl: options.osl ?? 0,
    ttftSlaMs: options.ttft_sla_ms ?? undefined,
    itlSlaMs: options.itl_sla_ms ?? undefined,
    kvHitRate: options.kv_hit_rate ?? undefined,
    acceptLength: options.accept_length ?? undefined,
  });
  return (
    capacity && {
      rps: capacity.requestsPerSecond,
      ttft_ms: capacity.ttftMs,
      itl_ms: capacity.itlMs,
      eligible: capacity.isWithinSla,
    }
  );
}

function play(row: Json): readonly string[] {
  const kind = row.worker_type as PoolKind;
  const options = { kind, observationsMin: 5, samplesMax: 64, buckets: 16 };
  const samples = (row.samples as readonly Json[]).map((sample) => [readPass(sample)]);
  const state = observePasses(NO_PASSES, samples, options);
  const model = passModel(state, options);
  const failures: string[] = [];
  const compare = (what: string, got: unknown, want: unknown): void => {
    if (differs(got, want)) failures.push(difference(what, got, want));
  };
  compare('ready', model !== undefined, row.ready);
  if (model !== undefined) {
    compare('avg_isl', model.averages.isl, row.avg_isl);
    compare('avg_decode_length', model.averages.decodeLength, row.avg_decode_length);
  }
  for (const query of row.queries as readonly Json[]) {
    const got = model && answer(kind, model, limitsOf(readEngine(row.capabilities as Json)), query);
    const want = query.expect;
    const what = JSON.stringify({ ...query, expect: undefined });
    if (typeof want !== 'object' || want === null) compare(what, got, want);
    else
      for (const [name, value] of Object.entries(want))
        compare(`${what} ${name}`, (got as Json | undefined)?.[name], value);
  }
  return failures;
}

export function passModelRows(folder: string): readonly PlannerRow[] {
  return readRows(folder, 'perf_model.jsonl').map((row, at) => ({
    id: `perf_model ${at + 1}, ${row.worker_type}`,
    play: () => play(row),
  }));
}
