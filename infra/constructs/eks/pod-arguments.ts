import type { EksFleetSettings } from '../../settings/index.ts';
import { argumentsOf } from '../worker-arguments.ts';
import { WEIGHTS_FOLDER } from './worker-pod.ts';

/** Returns the arguments of a pod of a fleet, by its place in the group of an engine on several nodes. */
export function podArguments(fleet: EksFleetSettings, nodes: number, place: 'leader' | 'follower'): readonly string[] {
  const { weights } = fleet;
  const ofGroup = nodes === 1 ? [] : [...groupArguments(fleet), ...(place === 'follower' ? ['--headless'] : [])];
  return argumentsOf({
    ...fleet,
    weights: weights === undefined ? undefined : placeOfWeights(weights),
    arguments: [...fleet.arguments, ...ofGroup],
  });
}

function placeOfWeights({ uri, mode }: NonNullable<EksFleetSettings['weights']>) {
  return { place: mode === 'disk' ? WEIGHTS_FOLDER : uri, isStreamed: mode === 'stream' };
}

/** Port on which the parts of an engine of SGLang find each other. */
const SGLANG_PORT = 20_000;

/**
 * Returns the arguments by which the parts of an engine find each other. The controller of a group tells each pod how
 * many there are, which place it has, and where the first one is.
 */
function groupArguments({ engine, arguments: given }: EksFleetSettings): readonly string[] {
  const common = ['--nnodes=$(LWS_GROUP_SIZE)', '--node-rank=$(LWS_WORKER_INDEX)'];
  if (engine.kind === 'sglang') return [...common, `--dist-init-addr=$(LWS_LEADER_ADDRESS):${SGLANG_PORT}`];
  const executor = '--distributed-executor-backend';
  const isGiven = [...given, ...engine.args].some((each) => each.startsWith(executor));
  return [...common, '--master-addr=$(LWS_LEADER_ADDRESS)', ...(isGiven ? [] : [`${executor}=mp`])];
}
