import { type CapacityOption, type Ec2FleetSettings, marketOf } from '../../settings/index.ts';
import { argumentsOf } from '../worker-arguments.ts';

/** Names of the lifecycle hooks of every group. */
export const HOOKS = { launch: 'launch', terminate: 'terminate' } as const;
/** Seconds between heartbeats of a machine: the default of `STATOR_HOST_HEARTBEAT_SECS`. */
export const HEARTBEAT_SECS = 100;
/** Seconds without a heartbeat after which Auto Scaling takes an agent for dead: two may get lost. */
export const HOOK_SECS = 3 * HEARTBEAT_SECS;
/** Folder of a machine for weights and compiled kernels. */
const HOST_DIR = '/var/lib/stator';
/** Text that the agent replaces by the place of the weights. */
const WEIGHTS = '{weights}';

/** Returns the variables of `stator host` for the machines of one option. */
export function hostEnvironment(
  fleet: Ec2FleetSettings,
  option: CapacityOption,
  group: string,
): Readonly<Record<string, string>> {
  const { engine, weights, generation } = fleet;
  const { endsAt } = option;
  return {
    STATOR_HOST_GROUP: group,
    STATOR_HOST_LAUNCH_HOOK: HOOKS.launch,
    STATOR_HOST_TERMINATE_HOOK: HOOKS.terminate,
    STATOR_HOST_RUNNER: 'docker',
    STATOR_HOST_WORKER_IMAGE: engine.image,
    STATOR_HOST_WORKER_ARGUMENTS: JSON.stringify(workerArguments(fleet)),
    STATOR_HOST_GPUS_PER_REPLICA: String(engine.gpusPerReplica),
    STATOR_HOST_START_SECS: String(fleet.startSecs),
    STATOR_HOST_DRAIN_SECS: String(fleet.drainSecs),
    STATOR_HOST_MARKET: marketOf(option),
    STATOR_HOST_DIR: HOST_DIR,
    STATOR_EMF: 'on', // the agent tells CloudWatch of its GPUs, by its log
    STATOR_EMF_SERVICE: group,
    ...(endsAt === undefined ? {} : { STATOR_HOST_ENDS_AT: endsAt }),
    ...(generation === undefined ? {} : { STATOR_HOST_GENERATION: generation }),
    ...(weights === undefined
      ? {}
      : {
          STATOR_HOST_WEIGHTS_URI: weights.uri,
          STATOR_HOST_WEIGHTS_BYTES: String(weights.bytes),
          STATOR_HOST_WEIGHTS_MODE: weights.mode,
        }),
  };
}

/** Returns the arguments of each `stator worker` of a machine. */
export function workerArguments({ weights, ...fleet }: Ec2FleetSettings): readonly string[] {
  const place = weights === undefined ? undefined : { place: WEIGHTS, isStreamed: weights.mode === 'stream' };
  return argumentsOf({ ...fleet, weights: place });
}
