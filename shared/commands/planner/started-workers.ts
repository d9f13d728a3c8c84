import {
  ConfigError,
  type Environment,
  forwardSettings,
  type ResolvedConfig,
  resolveConfig,
  type Settings,
} from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** What each worker that a planner starts is started with. */
export interface StartedWorkers {
  readonly argv: readonly string[];
  readonly env: Environment;
}

/**
 * The workers of `stator planner --planner-connector local`: they join the fleet that is planned for, whose discovery, planes and
 * namespace they are told, unless their own arguments say otherwise. That is warned of, as such workers are not heard.
 * @throws ConfigError for arguments that no worker takes
 */
export function startedWorkers(
  config: ResolvedConfig<'planner'>,
  namespace: string,
  env: Environment,
  logger: Logger,
): StartedWorkers {
  const { engineArguments, discoveryBackend } = config.settings;
  const forwarded = forwardSettings(config, 'worker');
  // Of a flag that is there twice the last one counts: the worker's own.
  const joined = [...forwarded.argv, `--discovery-backend=${discoveryBackend}`, `--namespace=${namespace}`];
  const argv = [...joined, ...engineArguments];
  const started = { argv, env: { ...env, ...forwarded.env } };
  for (const difference of differencesOf(config.settings, namespace, settingsOf(started))) {
    logger.warn('workers of this planner are not heard by it, as their arguments say otherwise', difference);
  }
  return started;
}

function settingsOf({ argv, env }: StartedWorkers): Settings<'worker'> {
  try {
    return resolveConfig('worker', argv, env).settings;
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    throw new ConfigError(thrown.problems.map((problem) => `a worker that the planner would start: ${problem}`));
  }
}

/** Where two processes have to agree to hear each other. */
const MEETING = ['discoveryBackend', 'fileKv', 'discoveryTable', 'eventPlane', 'zmqBrokerUrl', 'natsServer'] as const;

function differencesOf(settings: Settings<'planner'>, namespace: string, workers: Settings<'worker'>) {
  const differences = MEETING.map((setting) => [setting, settings[setting], workers[setting]] as const);
  const theirs = namespaceOf(workers.endpoint);
  return [...differences, ['namespace', namespace, theirs] as const]
    .map(([setting, planner, worker]) => ({ setting, planner: textOf(planner), workers: textOf(worker) }))
    .filter((each) => each.planner !== each.workers);
}

/** Of `dyn://namespace.component.endpoint`. */
function namespaceOf(endpoint: string): string | undefined {
  return endpoint.replace(/^dyn:\/\//, '').split('.')[0];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? 'unset');
}
