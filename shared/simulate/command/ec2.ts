import { ConfigError, type ResolvedConfig, type Settings } from '../../config/index.ts';
import {
  chooseFleet,
  type FleetSpec,
  type FleetSpecs,
  fleetPreset,
  readFleets,
  readPlannerConfig,
} from '../../planner/index.ts';
import { readFleetConditions } from '../ec2/conditions.ts';
import type { Ec2ScalingOptions } from '../ec2/ec2-scaling.ts';
import { initialWorkers } from '../ec2/initial.ts';
import type { SimulationOptions } from '../simulate.ts';

type Config = ResolvedConfig<'simulate'>;
type SimulatedFleet = Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine' | 'prefill'>;

/** Settings of the simulator's own scaling, which the options of a fleet replace. */
const REPLACED = ['startSeconds', 'warmWorkers', 'warmStartSeconds'] as const;

/** The fleet of `--planner-fleets`, and the GPUs that all models share. */
interface NamedFleet {
  readonly spec: FleetSpec;
  readonly gpusMax: number | undefined;
}

/** Reads `--planner-fleets` once for all runs of a sweep, because a pipe can be read only once. */
export class FleetSource {
  readonly #specs = new Map<string, Promise<FleetSpecs>>(); // bounded by the runs of a sweep

  /** Returns the fleet that the settings name; undefined if they name none. @throws ConfigError */
  async open({ settings }: Config): Promise<NamedFleet | undefined> {
    const { planner, plannerFleets } = settings;
    if (!planner || plannerFleets === undefined) return undefined;
    const key = JSON.stringify(plannerFleets);
    const reading = this.#specs.get(key) ?? readFleets(settings);
    this.#specs.set(key, reading);
    const specs = await reading;
    return { spec: chooseFleet(specs, settings), gpusMax: specs.gpusMax };
  }
}

/**
 * Returns a fleet with the workers that serve when the simulation begins: with `--planner-fleets` those of the least
 * instances of its options, or as many as `--workers` says.
 * @throws ConfigError for pools that do not match
 */
export async function withInitialWorkers<T extends SimulatedFleet>(
  config: Config,
  fleet: T,
  fleets: FleetSource,
): Promise<T> {
  const named = await fleets.open(config);
  if (named === undefined) return fleet;
  const { prefill, decode } = named.spec.pools;
  if (decode === undefined)
    throw new ConfigError(['--planner-fleets: a fleet of prefill workers alone has no answers']);
  if ((prefill === undefined) !== (fleet.prefill === undefined)) {
    const need = prefill === undefined ? 'one pool: leave out' : 'two pools: give';
    throw new ConfigError([`--planner-fleets has ${need} --num-prefill-workers and --num-decode-workers`]);
  }
  const isGiven = prefill !== undefined || config.given.has('workers');
  const workers = initialWorkers(decode, isGiven ? fleet.workers : 0);
  if (prefill === undefined || fleet.prefill === undefined) return { ...fleet, workers };
  return { ...fleet, workers, prefill: { ...fleet.prefill, workers: initialWorkers(prefill, fleet.prefill.workers) } };
}

/**
 * Returns how the planner of a deployment scales the fleet of `--planner-fleets`; undefined without it. @throws
 * ConfigError for settings that have no meaning there
 */
export async function ec2ScalingOf(
  config: Config,
  profile: Ec2ScalingOptions['profile'],
  fleets: FleetSource,
): Promise<Ec2ScalingOptions | undefined> {
  const named = await fleets.open(config);
  if (named === undefined) return undefined;
  const { settings, given } = config;
  const { spec, gpusMax } = named;
  const replaced = REPLACED.map((setting) => given.get(setting)?.name).find((name) => name !== undefined);
  if (replaced !== undefined)
    throw new ConfigError([`${replaced} is not for --planner-fleets: see --fleet-conditions`]);
  if (settings.plannerLaw === 'foresight') {
    throw new ConfigError([
      '--planner-law foresight does not scale --planner-fleets; allowed: rate, throughput, latency, load, sla',
    ]);
  }
  const preset = fleetPreset(spec);
  const fixed = { mode: spec.pools.prefill === undefined ? 'agg' : 'disagg' };
  const planned = await readPlannerConfig(settings, preset, fixed, settings.plannerLaw as PlannedLaw);
  return {
    fleet: spec,
    gpusMax,
    planner: { config: planned, engines: {} },
    profile: planned.law === 'rate' ? profile : {},
    conditions: await readFleetConditions(settings.fleetConditions, spec),
    defaults: settings,
    ttftTargetMs: planned.ttftMs,
    itlTargetMs: planned.itlMs,
  };
}

type PlannedLaw = Exclude<Settings<'simulate'>['plannerLaw'], 'foresight'>;
