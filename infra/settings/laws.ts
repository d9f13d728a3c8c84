import * as z from 'zod';
import { nearestName } from '../../shared/errors/index.ts';
import { PLANNER_KEYS, PlannerConfigError, parsePlannerConfig } from '../../shared/planner/index.ts';
import { isPlanned } from './fleet-parts.ts';

/** Law by which a planner scales a model: keys of docs/planner.md with their values. */
export const Law = z.record(z.string(), z.unknown());

/** Keys that follow from other settings, each with what to set instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  mode: 'follows from pool of the fleets',
  namespace: 'follows from generation of the fleets',
  model_name: 'is the name of the model',
  min_endpoint: 'is replicas.min of the fleet',
  prefill_min_endpoint: 'is replicas.min of the fleet',
  decode_min_endpoint: 'is replicas.min of the fleet',
  max_gpu_budget: 'follows from replicas.max of the fleets; planner.gpusMax bounds all models',
  start_at_zero: 'follows from replicas.min of the fleets and limits.holdSecs',
  start_seconds: 'is startSecs of the fleets',
  decode_engine_num_gpu: 'is engine.gpusPerReplica of the fleet',
  prefill_engine_num_gpu: 'is engine.gpusPerReplica of the fleet',
  live_dashboard_port: 'is for a planner with a page, which a function has not',
  control_api_port: 'is for a planner with an API, which a function has not',
};

interface Planned {
  readonly models: Readonly<Record<string, { readonly planner?: z.infer<typeof Law> | undefined }>>;
  readonly fleets: Readonly<Record<string, { readonly kind: string; readonly model: string; readonly pool: string }>>;
}

/** Refuses laws that no planner would follow. A planner ignores unknown keys, so a wrong name would change nothing. */
export function checkLaws({ models, fleets }: Planned, context: z.RefinementCtx): void {
  for (const [model, { planner: law }] of Object.entries(models)) {
    if (law === undefined) continue;
    const refuse = (message: string, ...path: readonly string[]) =>
      context.addIssue({ code: 'custom', path: ['models', model, 'planner', ...path], message });
    const own = Object.values(fleets).filter((fleet) => isPlanned(fleet) && fleet.model === model);
    if (own.length === 0) refuse('is for models with a fleet of kind: ec2 or eks, and this one has none');
    const wrong = Object.keys(law).flatMap((key) => {
      const problem = problemOfKey(key);
      return problem === undefined ? [] : [[key, problem] as const];
    });
    for (const [key, problem] of wrong) refuse(problem, key);
    if (wrong.length > 0) continue;
    try {
      parsePlannerConfig({ ...law, mode: own.some(({ pool }) => pool !== 'agg') ? 'disagg' : 'agg' });
    } catch (thrown) {
      if (!(thrown instanceof PlannerConfigError)) throw thrown;
      for (const problem of thrown.problems) refuse(problem.replace(/^planner configuration: /, ''));
    }
  }
}

function problemOfKey(key: string): string | undefined {
  const elsewhere = ELSEWHERE[key];
  if (elsewhere !== undefined) return `is not allowed: it ${elsewhere}`;
  if (PLANNER_KEYS.includes(key)) return undefined;
  const nearest = nearestName(key, PLANNER_KEYS);
  return nearest === undefined ? 'unknown key; docs/planner.md lists them' : `unknown key; did you mean ${nearest}?`;
}
