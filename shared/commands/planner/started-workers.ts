import {
  ConfigError,
  type Environment,
  forwardSettings,
  isEnough,
  type ResolvedConfig,
  resolveConfig,
  type Settings,
} from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Arguments and environment of each worker that a planner starts. */
export interface StartedWorkers {
  readonly argv: readonly string[];
  readonly env: Environment;
}

/**
 * Returns how `stator planner --planner-connector local` starts its workers. They join the planner's fleet: they get
 * its discovery, planes and namespace, unless their own arguments say otherwise. That causes a warning, because the
 * planner does not hear such workers.
 * @param workersMax how many may run at the same time
 * @throws ConfigError for arguments that no worker takes, and for ports that only some of the workers would get
 */
export function startedWorkers(
  config: ResolvedConfig<'planner'>,
  { namespace, workersMax }: { readonly namespace: string; readonly workersMax: number },
  env: Environment,
  logger: Logger,
): StartedWorkers {
  const { engineArguments, discoveryBackend } = config.settings;
  const forwarded = forwardSettings(config, 'worker');
  // If a flag is there twice, the last one counts: the worker's own.
  const joined = [...forwarded.argv, `--discovery-backend=${discoveryBackend}`, `--namespace=${namespace}`];
  const argv = [...joined, ...engineArguments];
  const started = { argv, env: { ...env, ...forwarded.env } };
  const workers = configOf(started);
  refuseSharedPorts(workers, workersMax);
  for (const difference of differencesOf(config.settings, namespace, workers.settings)) {
    logger.warn('this planner cannot hear its workers, because their arguments differ from its own', difference);
  }
  return started;
}

function configOf({ argv, env }: StartedWorkers): ResolvedConfig<'worker'> {
  try {
    return resolveConfig('worker', argv, env);
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    throw new ConfigError(thrown.problems.map((problem) => `a worker that the planner would start: ${problem}`));
  }
}

/** Settings of ports that each worker of a machine needs for itself. */
const RANGES = ['systemPort', 'tcpRpcPort', 'vllmKvEventPort'] as const;
const SINGLE = ['controlPort', 'vllmNixlSideChannelPort', 'zmqKvEventsPorts', 'zmqReplayPorts'] as const;

/** A worker that finds no port fails, and another one is started in its place, without end. */
function refuseSharedPorts({ settings, given }: ResolvedConfig<'worker'>, workersMax: number): void {
  if (workersMax < 2) return;
  const remedies = [
    ...RANGES.filter((setting) => !isEnough(settings[setting], workersMax)).map(
      (setting) => [setting, `leave it out, or give a range of ${workersMax} or more`] as const,
    ),
    ...SINGLE.filter((setting) => isFixed(settings[setting])).map((setting) => [setting, 'leave it out'] as const),
  ];
  const problems = remedies.flatMap(([setting, remedy]) => {
    const { name, texts = [] } = given.get(setting) ?? {}; // a default is made for many machines, and stays
    const why = `is not enough for the ${workersMax} workers that the planner may have`;
    return name === undefined ? [] : [`${name} ${JSON.stringify(texts.join(' '))} ${why}: ${remedy}`];
  });
  if (problems.length > 0) throw new ConfigError(problems);
}

function isFixed(port: number | readonly number[] | undefined): boolean {
  return typeof port === 'number' ? port > 0 : port !== undefined;
}

/** Settings on which two processes must agree to hear each other. */
const MEETING = [
  'discoveryBackend',
  'fileKv',
  'discoveryTable',
  'etcdEndpoints',
  'podNamespace',
  'eventPlane',
  'zmqBrokerUrl',
  'natsServer',
] as const;

function differencesOf(settings: Settings<'planner'>, namespace: string, workers: Settings<'worker'>) {
  const differences = MEETING.map((setting) => [setting, settings[setting], workers[setting]] as const);
  const theirs = namespaceOf(workers.endpoint);
  return [...differences, ['namespace', namespace, theirs] as const]
    .map(([setting, planner, worker]) => ({ setting, planner: textOf(planner), workers: textOf(worker) }))
    .filter((each) => each.planner !== each.workers);
}

/** Returns the namespace of `dyn://namespace.component.endpoint`. */
function namespaceOf(endpoint: string): string | undefined {
  return endpoint.replace(/^dyn:\/\//, '').split('.')[0];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? 'unset');
}
