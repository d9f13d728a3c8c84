import { ConfigError, type Settings } from '../../shared/config/index.ts';

/** The workers of `stator local`. */
export interface LocalFleet {
  /** Workers that clients' requests go to, and those that compute prompts for them. */
  readonly workers: number;
  readonly prefillWorkers: number;
  /** Arguments of each, those that compute prompts first. */
  readonly argv: readonly (readonly string[])[];
}

/** Flags with a port for each worker: each gets its own. */
const PER_WORKER = /^--(bootstrap-ports|zmq-kv-events-ports|zmq-replay-ports)=/;

/**
 * Which workers there are, and what each is started with.
 * @param shared arguments of every worker
 * @throws ConfigError for fewer ports than workers
 */
export function localFleet(settings: Settings<'local'>, shared: readonly string[]): LocalFleet {
  const { engine, numPrefillWorkers: prefillWorkers = 0, numDecodeWorkers, numWorkers } = settings;
  const { planner, minWorkers } = settings;
  // A planner begins with the fewest, but for one that makes the model known.
  const started = planner ? Math.max(1, minWorkers) : numWorkers;
  const workers = numDecodeWorkers ?? (engine === 'openai' && !planner ? 1 : started);
  const common = shared.filter((argument) => !PER_WORKER.test(argument));
  const argv = Array.from({ length: prefillWorkers + workers }, (_, at) => [
    ...common,
    ...(numDecodeWorkers === undefined ? [] : [`--disaggregation-mode=${at < prefillWorkers ? 'prefill' : 'decode'}`]),
    ...portsOf(settings, at, prefillWorkers),
  ]);
  return { workers, prefillWorkers, argv };
}

function portsOf(settings: Settings<'local'>, at: number, prefillWorkers: number): readonly string[] {
  const { bootstrapPorts, zmqKvEventsPorts, zmqReplayPorts } = settings;
  return [
    ...(at < prefillWorkers ? portOf('--bootstrap-ports', bootstrapPorts, at) : []),
    ...portOf('--zmq-kv-events-ports', zmqKvEventsPorts, at),
    ...portOf('--zmq-replay-ports', zmqReplayPorts, at),
  ];
}

function portOf(flag: string, ports: readonly number[] | undefined, at: number): readonly string[] {
  if (ports === undefined) return [];
  const port = ports[at];
  if (port === undefined) throw new ConfigError([`${flag}: one port is needed for each worker, got ${ports.length}`]);
  return [`${flag}=${port}`];
}
