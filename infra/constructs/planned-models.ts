import {
  type Ec2FleetSettings,
  type EksFleetSettings,
  holdSecsOf,
  replicasMinOf,
  type Settings,
} from '../settings/index.ts';

/** Namespace of workers without a generation (`DYN_NAMESPACE`). */
const NAMESPACE = 'dynamo';

/** A fleet whose workers a planner starts and ends. */
type Scaled = Ec2FleetSettings | EksFleetSettings;
/** A fleet with its name in the settings. */
export type Named<F extends Scaled> = readonly [name: string, fleet: F];

/** A model that a planner scales, as every kind of fleet describes it. */
export interface PlannedModel<P> {
  readonly namespace: string;
  readonly model: string;
  /** Pools by name; workers that do all of a request are the pool `decode`. */
  readonly pools: { readonly prefill?: P; readonly decode?: P };
  /** Settings of its law. */
  readonly planner: Readonly<Record<string, unknown>>;
}

/**
 * Returns one entry for each model and generation with fleets of a kind.
 * @param poolOf returns what the planner reads of a fleet
 */
export function plannedModels<F extends Scaled, P>(
  settings: Settings,
  kind: F['kind'],
  poolOf: (named: Named<F>) => P,
): readonly PlannedModel<P>[] {
  const byModel = new Map<string, Named<F>[]>();
  for (const [name, fleet] of Object.entries(settings.fleets)) {
    if (!isOfKind<F>(fleet, kind)) continue;
    const key = JSON.stringify([namespaceOf(fleet), fleet.model]);
    byModel.set(key, [...(byModel.get(key) ?? []), [name, fleet]]);
  }
  return [...byModel.values()].map((each) => describeModel(each, settings, poolOf));
}

function isOfKind<F extends Scaled>(fleet: Settings['fleets'][string], kind: F['kind']): fleet is F {
  return fleet.kind === kind;
}

function namespaceOf({ generation }: Scaled): string {
  return generation === undefined ? NAMESPACE : `${NAMESPACE}-${generation}`;
}

function describeModel<F extends Scaled, P>(
  fleets: readonly Named<F>[],
  settings: Settings,
  poolOf: (named: Named<F>) => P,
): PlannedModel<P> {
  const [[, first] = []] = fleets;
  if (first === undefined) throw new Error('a model of the planner has a fleet');
  const isAgg = first.pool === 'agg';
  const fewest = fleets.map(([, fleet]): [string, number] => [
    isAgg ? 'min_endpoint' : `${fleet.pool}_min_endpoint`,
    replicasMinOf(fleet),
  ]);
  return {
    namespace: namespaceOf(first),
    model: first.model,
    pools: Object.fromEntries(
      fleets.map((named) => [named[1].pool === 'prefill' ? 'prefill' : 'decode', poolOf(named)]),
    ),
    planner: {
      mode: isAgg ? 'agg' : 'disagg',
      ...Object.fromEntries(fewest),
      // The edges hold the first request ever, which is what starts the first worker.
      ...(fewest.every(([, count]) => count === 0) && holdSecsOf(settings) > 0 && { start_at_zero: true }),
      max_gpu_budget: fleets.reduce((sum, [, { replicas, engine }]) => sum + replicas.max * engine.gpusPerReplica, 0),
      ...settings.models[first.model]?.planner,
    },
  };
}
