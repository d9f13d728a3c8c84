import type { ResolvedConfig } from '../../config/index.ts';
import type { SchedulerOptions } from '../../engines/index.ts';
import { type Pool, readPlannerConfig } from '../../planner/index.ts';
import type { Ec2ScalingOptions } from '../ec2/ec2-scaling.ts';
import { ForesightPolicy, PlannerPolicy, profilePasses } from '../scaling/policies.ts';
import type { ScalingOptions } from '../scaling/scaling.ts';
import type { SimulationOptions } from '../simulate.ts';
import type { Workload } from '../workload.ts';
import { ec2ScalingOf, type FleetSource } from './ec2.ts';

type Fleet = Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine' | 'prefill' | 'contextTokensMax'>;

/**
 * Default rate of an engine for foresight, in requests a second: the rate that holds its targets in the reference
 * workloads.
 */
const FORESIGHT_RATE = 14;

/**
 * Returns how the fleet is scaled, as `--planner` and its settings say; undefined without it. @throws ConfigError for a
 * configuration that cannot be used
 */
export async function scalingOf(
  config: ResolvedConfig<'simulate'>,
  workload: Workload,
  fleet: Fleet,
  fleets: FleetSource,
): Promise<ScalingOptions | Ec2ScalingOptions | undefined> {
  const { settings } = config;
  if (!settings.planner) return undefined;
  const ec2 = await ec2ScalingOf(config, profilesOf(fleet), fleets);
  if (ec2 !== undefined) return ec2;
  const { plannerLaw: law, startSeconds, warmStartSeconds, gpuPrice } = settings;
  const { startFailures, warmWorkers, interruptionsPerHour } = settings;
  const mode = fleet.prefill === undefined ? 'agg' : 'disagg';
  const preset = { start_seconds: Math.max(1, startSeconds) };
  const planned = await readPlannerConfig(settings, preset, { mode }, law === 'foresight' ? undefined : law);
  const startMs = startSeconds * 1000;
  const engines = {
    ...(fleet.prefill && { prefill: capabilitiesOf(fleet.prefill.engine, fleet.prefill.dataParallelSize, fleet) }),
    decode: capabilitiesOf(fleet.engine, fleet.dataParallelSize, fleet),
  };
  const perEngine = planned.rateRequestsPerSecond ?? FORESIGHT_RATE;
  const policy =
    law === 'foresight'
      ? new ForesightPolicy(workload, perEngine, startMs)
      : new PlannerPolicy({ config: planned, engines }, startMs, planned.law === 'rate' ? profilesOf(fleet) : {});
  return {
    policy,
    startMs,
    startFailures,
    warmWorkers,
    warmStartMs: warmStartSeconds * 1000,
    interruptionsPerHour,
    ttftTargetMs: planned.ttftMs,
    itlTargetMs: planned.itlMs,
    gpuPrice,
  };
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

/** Returns the passes that a profile of these engines would have. */
function profilesOf({ engine, prefill }: Fleet): Partial<Record<Pool, ReturnType<typeof profilePasses>>> {
  if (prefill === undefined) return { decode: profilePasses(engine, 'aggregated') };
  return { prefill: profilePasses(prefill.engine, 'prefill'), decode: profilePasses(engine, 'decode') };
}
