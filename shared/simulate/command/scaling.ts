import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { ConfigError, type Settings } from '../../config/index.ts';
import type { SchedulerOptions } from '../../engines/mocker/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { PlannerConfigError, type PlannerLaw, type Pool, parsePlannerConfig } from '../../planner/index.ts';
import { ForesightPolicy, PlannerPolicy } from '../scaling/policies.ts';
import { profilePasses } from '../scaling/profile.ts';
import type { ScalingOptions } from '../scaling/scaling.ts';
import type { SimulationOptions } from '../simulate.ts';
import type { Workload } from '../workload.ts';

type Fleet = Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine' | 'prefill' | 'contextTokensMax'>;

/** Requests a second of an engine, where foresight is not told: what holds its targets in the reference workloads. */
const FORESIGHT_RATE = 14;

/**
 * Who scales the fleet, as `--planner` and its settings say; undefined without it.
 * @throws ConfigError for a configuration that cannot be used
 */
export async function scalingOf(
  settings: Settings<'simulate'>,
  workload: Workload,
  fleet: Fleet,
): Promise<ScalingOptions | undefined> {
  if (!settings.planner) return undefined;
  const { plannerLaw: law, startSeconds, warmStartSeconds, gpuPrice } = settings;
  const { startFailures, warmWorkers, interruptionsPerHour } = settings;
  const mode = fleet.prefill === undefined ? 'agg' : 'disagg';
  const raw = { start_seconds: Math.max(1, startSeconds), ...(await readConfig(settings)), mode };
  const config = readPlanner(raw, law === 'foresight' ? undefined : law);
  const startMs = startSeconds * 1000;
  const engines = {
    ...(fleet.prefill && { prefill: capabilitiesOf(fleet.prefill.engine, fleet.prefill.dataParallelSize, fleet) }),
    decode: capabilitiesOf(fleet.engine, fleet.dataParallelSize, fleet),
  };
  const perEngine = config.rate_requests_per_second ?? FORESIGHT_RATE;
  const policy =
    law === 'foresight'
      ? new ForesightPolicy(workload, perEngine, startMs)
      : new PlannerPolicy({ config, engines }, startMs, config.law === 'rate' ? profilesOf(fleet) : {});
  return {
    policy,
    startMs,
    startFailures,
    warmWorkers,
    warmStartMs: warmStartSeconds * 1000,
    interruptionsPerHour,
    ttftTargetMs: config.ttft_ms,
    itlTargetMs: config.itl_ms,
    gpuPrice,
  };
}

function readPlanner(raw: object, law: PlannerLaw | undefined) {
  try {
    return parsePlannerConfig(raw, law);
  } catch (thrown) {
    if (thrown instanceof PlannerConfigError) throw new ConfigError(thrown.problems);
    throw thrown;
  }
}

async function readConfig({ plannerConfig: given }: Settings<'simulate'>): Promise<object> {
  if (given === undefined) return {};
  if (given.kind === 'json') return asObject(given.value, '--planner-config');
  try {
    return asObject(parse(await readFile(given.path, 'utf8')), `--planner-config ${given.path}`);
  } catch (thrown) {
    if (thrown instanceof ConfigError) throw thrown;
    throw new ConfigError([`--planner-config ${given.path}: ${reasonOf(thrown)}`]);
  }
}

function asObject(value: unknown, what: string): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new ConfigError([`${what}: allowed: an object of keys and values`]);
}

function capabilitiesOf(engine: SchedulerOptions, ranks: number, { contextTokensMax }: Fleet) {
  const maxKvTokens = engine.numGpuBlocks * engine.blockSizeTokens;
  return {
    gpus: ranks,
    maxNumBatchedTokens: engine.maxNumBatchedTokens,
    maxNumSeqs: engine.maxNumSeqs,
    maxKvTokens,
    contextLength: contextTokensMax ?? maxKvTokens,
  };
}

/** What a profile of these engines would have taught the planner. */
function profilesOf({ engine, prefill }: Fleet): Partial<Record<Pool, ReturnType<typeof profilePasses>>> {
  if (prefill === undefined) return { decode: profilePasses(engine, 'aggregated') };
  return { prefill: profilePasses(prefill.engine, 'prefill'), decode: profilePasses(engine, 'decode') };
}
