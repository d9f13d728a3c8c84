import { join } from 'node:path';
import { ConfigError, type Environment, machineToCome, resolveConfig, type Settings } from '../config/index.ts';
import { engineKind } from '../engines/index.ts';
import { parseEndpoint } from '../worker/index.ts';
import type { InstanceIdentity } from './instance-facts.ts';
import type { ReplicaSpec } from './runners/types.ts';

type HostSettings = Settings<'host'>;

/** Variables of this machine, of systemd and of the agent, which mean nothing to a worker. */
const OWN_VARIABLES =
  /^(STATOR_HOST_.*|STATOR_IMDS_URL|PWD|OLDPWD|SHLVL|_|HOSTNAME|TERM|MAIL|INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|LISTEN_.*|WATCHDOG_.*|SYSTEMD_.*|MEMORY_PRESSURE_.*|(STATE|RUNTIME|CACHE|LOGS|CONFIGURATION)_DIRECTORY|SSH_.*)$/;
/** Variables that only processes of this machine may have: paths of programs are other ones in an image. */
const PROCESS_VARIABLES = /^(PATH|HOME|USER|LOGNAME|SHELL|LD_.*|NODE_.*|npm_.*|LANG|LC_.*|TMPDIR|XDG_.*)$/;
const EVERYWHERE: readonly string[] = ['auto', '0.0.0.0', '::'];
const PLACEHOLDER = '{weights}';
/** Share of the drain for which requests stay where they are; then those that can move to other workers do so. */
const GRACE_SHARE = 1 / 3;
const GRACE_SECS_MAX = 60;

/** Place of weights and caches on this machine. */
export interface Places {
  /** Text that stands for the weights in arguments: a URI or a folder; undefined = the settings name none. */
  readonly weights: string | undefined;
  /** Folder of compile caches; undefined = they are left to the engine. */
  readonly compileCache: string | undefined;
}

/** Facts about what the workers serve, which events for planners name. */
export interface Served {
  readonly namespace: string;
  readonly model: string | undefined;
  readonly pool: 'prefill' | 'decode' | 'agg';
  /** Health page of a worker, without its port. */
  readonly healthHost: string;
  readonly healthPath: string;
}

/** Returns the arguments of every worker, with the place of the weights. */
export function workerArguments(settings: HostSettings, { weights }: Pick<Places, 'weights'>): readonly string[] {
  const args = settings.hostWorkerArguments ?? [];
  return weights === undefined ? args : args.map((argument) => argument.replaceAll(PLACEHOLDER, weights));
}

/**
 * Reads the workers' settings as a worker will.
 * @throws ConfigError that names the setting of the host, so that a mistake shows before an engine loads
 */
export async function readServed(settings: HostSettings, args: readonly string[], env: Environment): Promise<Served> {
  const theirs = inherited(env, settings.hostRunner);
  const surroundings = settings.hostRunner === 'docker' ? { surroundings: machineToCome('worker', theirs, args) } : {};
  try {
    const worker = resolveConfig('worker', args, theirs, surroundings).settings;
    const kind = await engineKind(worker);
    const mode = worker.disaggregationMode;
    return {
      namespace: parseEndpoint(worker.endpoint).namespace,
      model: kind.displayName(worker),
      pool: mode === 'prefill' || mode === 'decode' ? mode : 'agg',
      healthHost: EVERYWHERE.includes(worker.systemHost) ? '127.0.0.1' : worker.systemHost,
      healthPath: worker.systemHealthPath,
    };
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    throw new ConfigError(thrown.problems.map((problem) => `--host-worker-arguments: ${problem}`));
  }
}

/** @throws ConfigError if the machine has a planner to report to, and its reports could name no model */
export function requireModel({ plannerQueueUrl }: HostSettings, { model }: Served): void {
  if (plannerQueueUrl === undefined || model !== undefined) return;
  throw new ConfigError([
    '--host-worker-arguments names no model, so the reports to the planner (STATOR_PLANNER_QUEUE_URL) cannot: add --served-model-name NAME',
  ]);
}

/** Returns how to run one worker. Variables that the operator has set win over those that are set here. */
export function replicaSpec(
  settings: HostSettings,
  index: number,
  { identity, places, env }: { identity: InstanceIdentity; places: Places; env: Environment },
): ReplicaSpec {
  const { hostGpus = 0, hostGpusPerReplica: each, hostRunner } = settings;
  const gpus = hostGpus === 0 ? [] : Array.from({ length: each }, (_, at) => index * each + at);
  const drainSecs = Math.ceil(settings.hostDrainSecs);
  return {
    index,
    args: workerArguments(settings, places),
    gpus,
    env: {
      DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: String(drainSecs),
      DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: String(Math.min(GRACE_SECS_MAX, Math.floor(drainSecs * GRACE_SHARE))),
      ...cacheFolders(places.compileCache),
      ...inherited(env, hostRunner),
      DYN_SYSTEM_PORT: String(settings.hostStatusPort + index),
      DYN_TCP_RPC_PORT: String(settings.hostWorkerPort + index),
      STATOR_HOST_FACTS: JSON.stringify({
        instance_id: identity.instanceId,
        instance_type: identity.instanceType,
        zone: identity.zone,
        market: identity.market,
        ...(settings.hostGroup === undefined ? {} : { group: settings.hostGroup }),
        ...(settings.hostGeneration === undefined ? {} : { generation: settings.hostGeneration }),
      }),
    },
  };
}

/** Returns the number of workers for which the machine has room. One without GPUs has room for one. */
export function replicaCount({ hostGpus = 0, hostGpusPerReplica: each }: HostSettings): number {
  return hostGpus === 0 ? 1 : Math.floor(hostGpus / each);
}

/** Returns the variables by which engines keep what they compile in `folder`. */
function cacheFolders(folder: string | undefined): Record<string, string> {
  if (folder === undefined) return {};
  return {
    VLLM_CACHE_ROOT: join(folder, 'vllm'),
    SGLANG_DG_CACHE_DIR: join(folder, 'deep_gemm'),
    FLASHINFER_WORKSPACE_BASE: join(folder, 'flashinfer'),
    TRITON_CACHE_DIR: join(folder, 'triton'),
    TORCHINDUCTOR_CACHE_DIR: join(folder, 'torchinductor'),
  };
}

function inherited(env: Environment, runner: HostSettings['hostRunner']): Record<string, string> {
  const kept = Object.entries(env).filter(
    ([name, text]) =>
      text !== undefined && !OWN_VARIABLES.test(name) && (runner === 'process' || !PROCESS_VARIABLES.test(name)),
  );
  return Object.fromEntries(kept) as Record<string, string>; // those without a value are left out above
}
