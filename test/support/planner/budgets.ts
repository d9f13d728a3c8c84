import {
  clampPair,
  clampSingle,
  fitDirectional,
  guardPair,
  guardSingle,
  type PairLimits,
  type PoolPair,
} from '../../../shared/planner/gpu-budget.ts';
import { limitPower } from '../../../shared/planner/power-budget.ts';
import { difference, differs, type PlannerRow, readRows } from './records.ts';

type Args = readonly (number | null)[];

function pairAt(args: Args, at: number): PoolPair {
  return { prefill: args[at] ?? 0, decode: args[at + 1] ?? 0 };
}

/** Returns the GPUs of each engine, the bounds and the minimums, in the order of a record. */
function limitsAt(args: Args, at: number): PairLimits {
  const bounds = { min: args[at + 2] ?? -1, max: args[at + 3] ?? -1 };
  return { gpus: pairAt(args, at), bounds, endpointsMin: pairAt(args, at + 4) };
}

const PLAYS: Readonly<Record<string, (args: Args) => unknown>> = {
  proportional_clamp_single: ([count = 0, gpus = 0, min = -1, max = -1, endpointsMin = 1]) =>
    clampSingle(count!, gpus!, { min: min!, max: max! }, endpointsMin!),
  proportional_clamp_pair: (args) => Object.values(clampPair(pairAt(args, 0), limitsAt(args, 2))),
  fit_directional_budget_pair: (args) =>
    Object.values(fitDirectional(pairAt(args, 0), pairAt(args, 2), limitsAt(args, 4))),
  guard_single_scaling_budget: ([current = 0, proposal = 0, gpus = 0, min = -1, max = -1, endpointsMin = 1]) => {
    const { count, reason } = guardSingle(current!, proposal!, gpus!, { min: min!, max: max! }, endpointsMin!);
    return [count, reason ?? null];
  },
  guard_disagg_scaling_budget: (args) => {
    const { counts, reason } = guardPair(pairAt(args, 0), pairAt(args, 2), limitsAt(args, 4));
    return [counts.prefill, counts.decode, reason ?? null];
  },
  apply_power_budget: (args) => {
    const [prefill, decode] = args;
    const proposal = { ...(prefill != null && { prefill }), ...(decode != null && { decode }) };
    const limits = { watts: pairAt(args, 4), wattsMax: args[6] ?? 0, endpointsMin: pairAt(args, 7) };
    const limited = limitPower(proposal, pairAt(args, 2), limits);
    return [limited.proposal.prefill ?? null, limited.proposal.decode ?? null, limited.reason ?? null];
  },
};

export function budgetRows(folder: string): readonly PlannerRow[] {
  return readRows(folder, 'budget.jsonl').map((row, at) => ({
    id: `budget ${at + 1}, ${row.fn}`,
    play: () => {
      const got = PLAYS[String(row.fn)]?.(row.args as Args);
      return differs(got, row.expect) ? [difference(JSON.stringify(row.args), got, row.expect)] : [];
    },
  }));
}
