import { join } from 'node:path';
import { ConfigError, type Environment, type Settings, stateFolder } from '../../config/index.ts';
import { engineModel } from '../../engines/index.ts';
import {
  DynamoDbPlannerStore,
  FilePlannerStore,
  type ForwardPass,
  type PerPool,
  type Planner,
  type PlannerLaw,
  type PlannerStore,
  readPlannerConfig,
} from '../../planner/index.ts';
import { profilePasses } from '../../simulate/index.ts';

/** Processes on one machine start soon; once some have, their own time counts. */
const LOCAL_START_S = 2;

export interface LocalPlanning {
  readonly planner: Planner;
  /** Passes that were measured before, one worker's ranks each. */
  readonly profile: PerPool<readonly (readonly ForwardPass[])[]>;
}

/** The law that the settings name. @throws ConfigError for one that only a simulator can follow */
export function lawOf({ plannerLaw: law }: Pick<Settings<'planner'>, 'plannerLaw'>): PlannerLaw | undefined {
  if (law === 'foresight')
    throw new ConfigError(['--planner-law foresight is for stator simulate: nobody knows what comes']);
  return law;
}

/**
 * The planner of `stator local`, and what it knows at its start: of mock engines how long their passes take.
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
    rate_surge_worth: 0, // what starts in seconds need not wait for the next burst
    live_dashboard_port: 0,
    control_api_port: 0,
    report_interval_hours: null,
  };
  const config = await readPlannerConfig(settings, preset, fixed, law);
  if (engine !== 'mocker' && config.law === 'sla') {
    throw new ConfigError([
      `the law sla asks how long passes take, which --engine ${engine} does not say; allowed: rate, throughput, latency, load`,
    ]);
  }
  if (engine !== 'mocker' && config.law === 'rate' && config.rate_requests_per_second == null) {
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

type StoreSettings = Pick<Settings<'planner'>, 'plannerDir'> &
  Partial<Pick<Settings<'planner'>, 'plannerTable' | 'dynamodbEndpoint' | 'awsRegion'>>;

/** The folder of a user's planners. */
export function plannerFolder({ plannerDir }: Pick<Settings<'planner'>, 'plannerDir'>, env: Environment): string {
  return plannerDir ?? join(stateFolder(env), 'planner');
}

/** Where a planner keeps what it decided: the table, where there is one, else the folder. */
export async function openPlannerStore(settings: StoreSettings, env: Environment): Promise<PlannerStore> {
  const { plannerTable: tableName, dynamodbEndpoint: endpoint, awsRegion: region } = settings;
  if (tableName === undefined) return new FilePlannerStore(plannerFolder(settings, env));
  return DynamoDbPlannerStore.open({ tableName, endpoint, region });
}
