import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { ConfigError, type ResolvedConfig, type Settings } from '../../config/index.ts';
import { engineModel, readTimingProfile } from '../../engines/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { openRouterFiles } from '../../routing/index.ts';
import {
  type KvRouterConfig,
  KvRouterConfigError,
  kvRouterConfigOf,
  type PolicyConfig,
} from '../../scheduler/index.ts';
import { applyEngineArgs, readEngineArgs } from '../../worker/index.ts';
import { capacityOf, rateOf } from '../capacity.ts';
import type { CpuWorkers, RoutingMode, RoutingOptions } from '../routers.ts';
import type { SimulationOptions } from '../simulate.ts';
import { makeWorkload } from '../synthetic.ts';
import { parseTrace, TraceError } from '../trace.ts';
import type { Workload } from '../workload.ts';
import { syntheticOptions, WORKLOAD_NAMES } from './made-up.ts';

/**
 * Returns what to simulate, from the settings of one run. @throws ConfigError for settings of the router that exclude
 * each other, and for a bad policy file
 */
export async function simulationOptions(
  config: ResolvedConfig<'simulate'>,
  workload: Workload,
  fleet: Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine' | 'prefill'>,
): Promise<SimulationOptions> {
  const { settings } = config;
  const { policies, prefillDuration } = await explainRefusal(() => openRouterFiles(settings));
  const mode = modeOf(settings);
  if (mode === 'direct') checkNamedWorkers(workload, fleet);
  const machines = { ...fleet, cpus: cpusOf(settings, fleet), workerSpeeds: settings.workerSpeed };
  return {
    workload,
    ...machines,
    contextTokensMax: settings.maxModelLen,
    routing: {
      mode,
      routers: settings.routers,
      replicaSyncDelayMs: settings.routerReplicaSync ? settings.replicaSyncDelayMs : undefined,
      cudaToCpuRatio: settings.encoderCudaToCpuRatio,
      loadAgeMs: settings.loadAgeMs,
      asking: { workersMax: settings.routerAskedWorkers, delayMs: settings.askDelayMs },
      kv: await kvConfig(config, policies),
      indexBytesMax: settings.indexMaxMb * 2 ** 20,
      policies: policies?.root,
      prefillDuration,
    },
    arrivalSpeedup: speedupOf(settings, workload, machines),
    concurrency: settings.replayConcurrency,
    kvEventLagMs: settings.kvEventLagMs,
    seed: settings.routerSeed ?? settings.seed,
  };
}

/**
 * Returns the factor of arrival times: as it is given, or so that the requests are the wanted share of the capacity.
 * @throws ConfigError for requests that all arrive at once
 */
function speedupOf(
  { load, arrivalSpeedup }: Settings<'simulate'>,
  workload: Workload,
  fleet: Parameters<typeof capacityOf>[1],
): number {
  if (load === undefined) return arrivalSpeedup;
  const rate = rateOf(workload);
  if (!Number.isFinite(rate))
    throw new ConfigError(['--load needs requests that arrive at different times: give more of them']);
  return (load * capacityOf(workload, fleet)) / rate;
}

/** @throws ConfigError for a role that decides for another mode */
function modeOf({ loadAware, mode, routerRole }: Settings<'simulate'>): RoutingMode {
  if (loadAware) return 'load-aware';
  if (routerRole !== 'stateless') return mode;
  if (mode === 'kv') return 'stateless';
  throw new ConfigError([`--router-role stateless decides for --mode kv, not for ${mode}`]);
}

/**
 * @throws ConfigError if a request does not name its worker, or if there are two pools, in which it would have to name
 * two
 */
function checkNamedWorkers({ worker }: Workload, { prefill }: Pick<SimulationOptions, 'prefill'>): void {
  if (prefill !== undefined)
    throw new ConfigError(['--mode direct is for one pool of workers, not for prefill and decode']);
  const at = worker.indexOf(-1);
  if (at >= 0)
    throw new ConfigError([
      `--mode direct needs the field "worker" in every request of --trace; request ${at + 1} has none`,
    ]);
}

/** @throws ConfigError for more CPUs than workers */
function cpusOf(
  { numCpuWorkers: count, cpuSlowdown: slowdown }: Settings<'simulate'>,
  { workers }: Pick<SimulationOptions, 'workers'>,
): CpuWorkers | undefined {
  if (count > workers) throw new ConfigError([`--num-cpu-workers ${count} is more than the ${workers} workers`]);
  return count === 0 ? undefined : { count, slowdown };
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

/** Describes a simulation for the head of a report. */
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
    ...describeLoad(settings, options),
    seed: options.seed,
  };
}

function describeLoad(
  { load, seeds, workerSpeed }: Settings<'simulate'>,
  { workload, arrivalSpeedup }: SimulationOptions,
): Readonly<Record<string, string | number>> {
  return {
    ...(load !== undefined && { load, 'requests a second': Number((rateOf(workload) * arrivalSpeedup).toFixed(3)) }),
    ...(workerSpeed.some((speed) => speed !== 1) && { 'worker-speed': workerSpeed.join('/') }),
    ...(seeds > 1 && { seeds }),
  };
}

function describeStateless({ routers, loadAgeMs, asking }: RoutingOptions): Readonly<Record<string, number>> {
  return { routers, 'load-age-ms': loadAgeMs, 'asked-workers': asking?.workersMax ?? 0 };
}

type Config = ResolvedConfig<'simulate'>;
type SimulatedWorkers = Pick<SimulationOptions, 'workers' | 'dataParallelSize' | 'engine'>;
type SimulatedFleet = SimulatedWorkers & Pick<SimulationOptions, 'prefill'>;

/**
 * KV bytes of a token if they are not given, those of Llama 3.1 8B: 32 layers x 2 x 8 heads x 128 numbers x 2 bytes.
 */
const KV_BYTES_PER_TOKEN = 131_072;

/**
 * Returns the configuration with the values of `--extra-engine-args`. @throws ConfigError for a file that cannot be
 * used
 */
export async function withExtraEngineArgs(config: Config): Promise<Config> {
  const path = config.settings.extraEngineArgs;
  if (path === undefined) return config;
  const flag = '--extra-engine-args';
  const { settings, warnings } = applyEngineArgs(config, await readEngineArgs(flag, path), `${flag} ${path}`);
  return { ...config, settings, warnings: [...config.warnings, ...warnings] };
}

/**
 * Returns the workers of one run, in one pool or in two.
 * @param warn takes one line for each setting that gives way to another or has no effect
 * @throws ConfigError for pools that cannot work together, and for tables of times that cannot be read
 */
export async function simulatedFleet(config: Config, warn: (warning: string) => void): Promise<SimulatedFleet> {
  const { settings, given } = config;
  const { workers, numPrefillWorkers, numDecodeWorkers } = settings;
  if (numPrefillWorkers === undefined || numDecodeWorkers === undefined) {
    for (const setting of ['prefillEngineArgs', 'decodeEngineArgs'] as const) {
      const flag = given.get(setting)?.name;
      if (flag !== undefined) throw new ConfigError([`${flag} needs --num-prefill-workers and --num-decode-workers`]);
    }
    return workersOf(workers, settings);
  }
  const prefill = await poolSettings(config, 'prefill');
  const decode = await poolSettings(config, 'decode');
  for (const warning of [...prefill.warnings, ...decode.warnings]) warn(warning);
  if (prefill.settings.blockSize !== decode.settings.blockSize) {
    throw new ConfigError([
      `block_size ${prefill.settings.blockSize} of the prefill workers is not the ${decode.settings.blockSize} of the decode workers: blocks cross as they are`,
    ]);
  }
  const { kvBytesPerToken, kvTransferBandwidth, kvTransferTimingMode } = prefill.settings;
  return {
    ...(await workersOf(numDecodeWorkers, decode.settings)),
    prefill: {
      ...(await workersOf(numPrefillWorkers, prefill.settings)),
      transfer: {
        bytesPerToken: kvBytesPerToken ?? KV_BYTES_PER_TOKEN,
        bandwidthGbps: kvTransferBandwidth,
        movesMissingOnly: kvTransferTimingMode === 'destination_missing',
      },
    },
  };
}

async function poolSettings(config: Config, role: 'prefill' | 'decode') {
  const { settings } = config;
  const given = role === 'prefill' ? settings.prefillEngineArgs : settings.decodeEngineArgs;
  if (given === undefined) return { settings, warnings: [] };
  const flag = `--${role}-engine-args`;
  const args = given.kind === 'json' ? given.value : await readEngineArgs(flag, given.path);
  const { worker_type: type = role } = (args ?? {}) as { readonly worker_type?: unknown };
  if (type !== role) throw new ConfigError([`${flag}: worker_type must be ${role}, got ${JSON.stringify(type)}`]);
  return applyEngineArgs(config, args, flag);
}

async function workersOf(workers: number, settings: Settings<'simulate'>): Promise<SimulatedWorkers> {
  const { dataParallelSize, numGpuBlocks, plannerProfileData: path } = settings;
  try {
    const timing = path === undefined ? undefined : await readTimingProfile(path);
    return { workers, dataParallelSize, engine: { numGpuBlocks, ...engineModel(settings), timing } };
  } catch (thrown) {
    throw new ConfigError([reasonOf(thrown)]); // figures by other times than those asked for would mislead
  }
}

const GZIP_MAGIC = 0x1f8b;

/** Opens workloads; a trace is read once for all runs of a sweep. */
export class WorkloadSource {
  readonly #traces = new Map<string, Workload>(); // bounded by the runs of a sweep

  /**
   * @throws ConfigError when the settings name no workload, or two
   * @throws Error for a trace that cannot be read; the message has its line and field
   */
  async open(settings: Settings<'simulate'>): Promise<Workload> {
    const { trace, workload: shape } = settings;
    if (trace !== undefined && shape !== undefined)
      throw new ConfigError(['--trace and --workload exclude each other']);
    if (trace !== undefined) return this.#openTrace(trace, settings);
    if (shape === undefined)
      throw new ConfigError([`nothing to simulate: give --trace FILE, or --workload ${nameAll(WORKLOAD_NAMES)}`]);
    return makeWorkload(syntheticOptions(shape, settings));
  }

  async #openTrace(path: string, { traceBlockSize, blockSize }: Settings<'simulate'>): Promise<Workload> {
    if (traceBlockSize % blockSize !== 0) {
      throw new ConfigError([
        `--trace-block-size ${traceBlockSize} must be a multiple of --block-size ${blockSize}: an id names whole blocks`,
      ]);
    }
    const key = `${traceBlockSize} ${path}`;
    const known = this.#traces.get(key);
    if (known !== undefined) return known;
    const workload = await readTrace(path, traceBlockSize);
    this.#traces.set(key, workload);
    return workload;
  }
}

/** Returns `a, b or c`. */
function nameAll(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}

async function readTrace(path: string, traceBlockSize: number): Promise<Workload> {
  const bytes = await readFile(path);
  const isZipped = bytes.length >= 2 && bytes.readUInt16BE(0) === GZIP_MAGIC;
  try {
    return parseTrace((isZipped ? gunzipSync(bytes) : bytes).toString('utf8'), traceBlockSize);
  } catch (thrown) {
    if (thrown instanceof TraceError) throw new Error(`--trace ${path}, ${thrown.message}`);
    throw new Error(`--trace ${path} cannot be unzipped`, { cause: thrown });
  }
}
