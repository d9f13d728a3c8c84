import { ConfigError, type Settings } from '../../config/index.ts';
import { engineModel } from '../../engines/mocker/index.ts';
import { type Planner, type PlannerLaw, type PlannerState, startPlanner, teach } from '../../planner/index.ts';
import { profilePasses, readPlannerConfig } from '../../simulate/index.ts';

/** Processes on one machine start soon; once some have, their own time counts. */
const LOCAL_START_S = 2;
/** The others look at the passes of engines. */
const LAWS_HERE: readonly PlannerLaw[] = ['rate'];

/**
 * The planner of `stator local`, and what it knows at its start: of mock engines how long their passes take.
 * @throws ConfigError for settings that cannot be used
 */
export async function localPlanning(
  settings: Settings<'local'>,
  nowS: number,
): Promise<{ readonly planner: Planner; readonly state: PlannerState }> {
  const { minWorkers, maxWorkers, engine, plannerLaw: law } = settings;
  if (minWorkers > maxWorkers)
    throw new ConfigError([`--min-workers ${minWorkers} is above --max-workers ${maxWorkers}`]);
  if (settings.numPrefillWorkers !== undefined) {
    throw new ConfigError(['--planner scales one pool: leave out --num-prefill-workers and --num-decode-workers']);
  }
  if (law === 'foresight')
    throw new ConfigError(['--planner-law foresight is for stator simulate: nobody knows what comes']);
  const fixed = { mode: 'agg', min_endpoint: minWorkers, max_gpu_budget: maxWorkers };
  const config = await readPlannerConfig(settings, { start_seconds: LOCAL_START_S }, fixed, law);
  if (!LAWS_HERE.includes(config.law)) {
    throw new ConfigError([
      `the law ${config.law} needs the passes of engines, which no worker reports yet; allowed here: rate`,
    ]);
  }
  if (engine !== 'mocker' && config.rate_requests_per_second == null) {
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
  return { planner: { config, engines }, state: teach(startPlanner(nowS), config, profile) };
}
