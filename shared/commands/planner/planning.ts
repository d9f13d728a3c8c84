import { ConfigError, type Settings } from '../../config/index.ts';
import { engineModel } from '../../engines/index.ts';
import {
  type FleetSpec,
  type ForwardPass,
  fleetPreset,
  type PerPool,
  type Planner,
  type PlannerConfig,
  type PlannerLaw,
  type Pool,
  readPlannerConfig,
  wattsOf,
} from '../../planner/index.ts';
import { profilePasses } from '../../simulate/index.ts';

/** Seconds that a process of this machine takes to start. Once some have started, their measured time counts. */
const LOCAL_START_S = 2;
/** Seconds that a worker of `--planner-connector local` takes to start. */
const PROCESS_START_S = 5;

export interface LocalPlanning {
  readonly planner: Planner;
  /** Passes that were measured before, one worker's ranks each. */
  readonly profile: PerPool<readonly (readonly ForwardPass[])[]>;
}

/** Returns the law that the settings name. @throws ConfigError for one that only a simulator can follow */
export function lawOf({ plannerLaw: law }: Pick<Settings<'planner'>, 'plannerLaw'>): PlannerLaw | undefined {
  if (law === 'foresight')
    throw new ConfigError(['--planner-law foresight is for stator simulate: a live planner does not know what comes']);
  return law;
}

/**
 * Returns the planner of `stator local` with what it knows at its start: how long the passes of mock engines take.
 * @throws ConfigError for settings that cannot be used
 */
export async function localPlanning(settings: Settings<'local'>): Promise<LocalPlanning> {
  const { minWorkers, maxWorkers, engine } = settings;
  if (minWorkers > maxWorkers)
    throw new ConfigError([`--min-workers ${minWorkers} is above --max-workers ${maxWorkers}`]);
  if (settings.numPrefillWorkers !== undefined) {
    throw new ConfigError(['--planner scales one pool: leave out --num-prefill-workers and --num-decode-workers']);
  }
  const law = lawOf(settings);
  const fixed = { mode: 'agg', min_endpoint: minWorkers, max_gpu_budget: maxWorkers };
  const preset = {
    start_seconds: LOCAL_START_S,
    rate_surge_worth: 0, // a worker that starts in seconds need not wait for the next burst
    live_dashboard_port: 0,
    control_api_port: 0,
    report_interval_hours: null,
  };
  const config = await readPlannerConfig(settings, preset, fixed, law);
  if (engine !== 'mocker' && config.law === 'sla') {
    throw new ConfigError([
      `the law sla needs the duration of passes, which --engine ${engine} does not say; allowed: rate, throughput, latency, load`,
    ]);
  }
  if (engine !== 'mocker' && config.law === 'rate' && config.rateRequestsPerSecond == null) {
    throw new ConfigError([
      `--planner with --engine ${engine} needs to know what a worker serves: --planner-config '{"rate_requests_per_second": N}'`,
    ]);
  }
  const model = { numGpuBlocks: settings.numGpuBlocksOverride, ...engineModel(settings) };
  const engines = {
    decode: {
      gpus: 1,
      maxNumSeqs: model.maxNumSeqs,
      maxNumBatchedTokens: model.maxNumBatchedTokens,
      maxKvTokens: model.numGpuBlocks * model.blockSizeTokens,
    },
  };
  const profile = engine === 'mocker' ? { decode: profilePasses(model, 'aggregated') } : {};
  return { planner: { config, engines }, profile };
}

/** Returns the planner of `stator planner`. @throws ConfigError for settings that cannot be used */
export async function fleetPlanning(settings: Settings<'planner'>, fleet?: FleetSpec): Promise<Planner> {
  const { plannerConnector: connector } = settings;
  const preset = {
    mode: 'agg',
    ...(connector === 'local' ? { start_seconds: PROCESS_START_S, rate_surge_worth: 0 } : {}),
    ...(fleet === undefined ? {} : fleetPreset(fleet)),
  };
  const config = await readPlannerConfig(settings, preset, {}, lawOf(settings));
  if (connector === 'local' && config.mode !== 'agg') {
    throw new ConfigError([
      `--planner-connector local scales one pool: mode ${config.mode} of --planner-config; allowed: agg`,
    ]);
  }
  const unknown = (['prefill', 'decode'] as const).find(
    (pool) => config.enablePowerAwareness && isPlanned(config, pool) && wattsOf(pool, config, {}) === undefined,
  );
  if (unknown !== undefined) {
    throw new ConfigError([`enable_power_awareness needs ${unknown}_engine_watts: the watts of one worker`]);
  }
  return { config, engines: {} };
}

function isPlanned({ mode }: PlannerConfig, pool: Pool): boolean {
  return mode === 'disagg' || (mode === 'prefill') === (pool === 'prefill');
}

/** Returns the milliseconds between two roll-ups of a worker, for a planner with this interval between ticks. */
export function rollupIntervalMs({ config }: Planner): number {
  return Math.max(200, Math.min(5000, config.tickSeconds * 1000));
}
