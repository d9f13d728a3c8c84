import { basename } from 'node:path';
import { ConfigError, type ResolvedConfig, type Settings } from '../../config/index.ts';
import {
  type KvRouterConfig,
  KvRouterConfigError,
  kvRouterConfigOf,
  type PolicyConfig,
} from '../../router/scheduler/index.ts';
import { openRouterFiles } from '../../routing/index.ts';
import type { RoutingMode, RoutingOptions } from '../routers.ts';
import type { SimulationOptions } from '../simulate.ts';
import type { Workload } from '../workload.ts';

/**
 * What to simulate, from the settings of one run.
 * @throws ConfigError for settings of the router that exclude each other, and for a bad policy file
 */
export async function simulationOptions(
  config: ResolvedConfig<'simulate'>,
  workload: Workload,
  fleet: Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine' | 'prefill'>,
): Promise<SimulationOptions> {
  const { settings } = config;
  const { policies, prefillDuration } = await explainRefusal(() => openRouterFiles(settings));
  return {
    workload,
    ...fleet,
    contextTokensMax: settings.maxModelLen,
    routing: {
      mode: modeOf(settings),
      routers: settings.routers,
      replicaSyncDelayMs: settings.replicaSyncDelayMs,
      loadAgeMs: settings.loadAgeMs,
      asking: { workersMax: settings.routerAskedWorkers, delayMs: settings.askDelayMs },
      kv: await kvConfig(config, policies),
      indexBytesMax: settings.indexMaxMb * 2 ** 20,
      policies: policies?.root,
      prefillDuration,
    },
    arrivalSpeedup: settings.arrivalSpeedup,
    concurrency: settings.replayConcurrency,
    kvEventLagMs: settings.kvEventLagMs,
    seed: settings.routerSeed ?? settings.seed,
  };
}

/** @throws ConfigError for a role that decides for another mode */
function modeOf({ loadAware, mode, routerRole }: Settings<'simulate'>): RoutingMode {
  if (loadAware) return 'load-aware';
  if (routerRole !== 'stateless') return mode;
  if (mode === 'kv') return 'stateless';
  throw new ConfigError([`--router-role stateless decides for --mode kv, not for ${mode}`]);
}

function kvConfig(
  { settings }: ResolvedConfig<'simulate'>,
  policies: PolicyConfig | undefined,
): Promise<KvRouterConfig> {
  const routerSettings = { ...settings, routerCostModel: settings.costModel };
  return explainRefusal(() => kvRouterConfigOf(routerSettings, policies?.settings));
}

/** A configuration that the router refuses is the user's mistake. */
async function explainRefusal<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (thrown) {
    if (thrown instanceof KvRouterConfigError) throw new ConfigError([thrown.message]);
    throw thrown;
  }
}

/** What was simulated, for the head of a report. */
export function describeRun(
  settings: Settings<'simulate'>,
  options: SimulationOptions,
): Readonly<Record<string, string | number>> {
  const { mode, kv } = options.routing;
  const { workers, prefill } = options;
  return {
    workload: settings.trace === undefined ? (settings.workload ?? '') : basename(settings.trace),
    requests: options.workload.size,
    ...(prefill === undefined ? { workers } : { 'prefill workers': prefill.workers, 'decode workers': workers }),
    'router-mode': mode,
    ...(mode === 'kv' || mode === 'load-aware' ? { 'cost-model': kv.costModel } : {}),
    ...(mode === 'stateless' ? describeStateless(options.routing) : {}),
    ...(settings.arrivalSpeedup === 1 ? {} : { 'arrival-speedup': settings.arrivalSpeedup }),
    seed: options.seed,
  };
}

function describeStateless({ routers, loadAgeMs, asking }: RoutingOptions): Readonly<Record<string, number>> {
  return { routers, 'load-age-ms': loadAgeMs, 'asked-workers': asking?.workersMax ?? 0 };
}
