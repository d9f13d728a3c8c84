import {
  type Around,
  knownTypes,
  type Problem,
  problemsOfModel,
  problemsOfZoneNames,
  tagProblems,
} from './ec2-checks.ts';
import { type EksFleetSettings, type PodOption, workloadNamesOf } from './eks-fleets.ts';
import type { GpuType } from './gpu-types.ts';

/** Longest name of a workload: its pods have a label with it, and names that add 17 characters. */
const WORKLOAD_NAME_MAX = 46;

/** Variables that the manifest sets by other settings of the fleet, each with that setting. */
const BY_MANIFEST: Readonly<Record<string, string>> = {
  DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: 'follows from drainSecs of the fleet',
  DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: 'is drainSecs of the fleet',
  STATOR_ENGINE_START_TIMEOUT_SECS: 'is twice startSecs of the fleet',
  HF_HOME: 'is the volume for downloads of the pods',
};

/** Returns everything that keeps a fleet on EKS from being deployed. */
export function problemsOfEksFleet(name: string, fleet: EksFleetSettings, around: Around): readonly Problem[] {
  const options = fleet.options.flatMap((option, at) =>
    [...problemsOfTypes(option, fleet, around), ...problemsOfZoneNames(option.zones, around.zones)].map(
      ({ path, message }) => ({ path: ['options', at, ...path], message }),
    ),
  );
  return [
    ...problemsOfName(name, fleet),
    ...problemsOfModel(fleet),
    ...options,
    ...problemsOfReplicas(fleet),
    ...problemsOfWeights(fleet),
    ...problemsOfEnvironment(fleet),
    ...problemsOfArguments(fleet),
  ];
}

/** Returns what is odd about a fleet on EKS and can be deployed. */
export function warningsOfEksFleet({ engine }: EksFleetSettings): readonly Problem[] {
  return tagProblems(engine.image, 'pods');
}

/** Refuses a name that objects of Kubernetes cannot have. */
function problemsOfName(name: string, fleet: EksFleetSettings): readonly Problem[] {
  if (!/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(name)) {
    const message = 'names objects of Kubernetes: must be lower-case letters, digits and hyphens, and end without one';
    return [{ path: [], message }];
  }
  const long = workloadNamesOf(name, fleet).find(({ length }) => length > WORKLOAD_NAME_MAX);
  if (long === undefined) return [];
  const message = `a workload would be ${long}, which has ${long.length} characters: allowed are ${WORKLOAD_NAME_MAX}`;
  return [{ path: [], message }];
}

function problemsOfTypes({ types }: PodOption, fleet: EksFleetSettings, around: Around): readonly Problem[] {
  const known = knownTypes(types, around.types);
  if ('problems' in known) return known.problems;
  const [first] = known.facts;
  return first === undefined ? [] : [...known.unequal, ...problemsOfGpus(...first, fleet)];
}

/** Refuses replicas that leave GPUs of a node idle. */
function problemsOfGpus(name: string, { gpus }: GpuType, { engine }: EksFleetSettings): readonly Problem[] {
  const { gpusPerReplica } = engine;
  if (gpus % gpusPerReplica === 0 || gpusPerReplica % gpus === 0) return [];
  const message = `${name}: has ${gpus} GPUs, and engine.gpusPerReplica is ${gpusPerReplica}: one must be a multiple of the other`;
  return [{ path: ['types', 0], message }];
}

/** Flags by which the manifest tells the parts of an engine on several nodes of each other. */
const OF_GROUPS = ['--nnodes', '--node-rank', '--master-addr', '--master-port', '--dist-init-addr', '--headless'];

function problemsOfArguments({ engine, arguments: given }: EksFleetSettings): readonly Problem[] {
  const problemsIn = (all: readonly string[], path: readonly string[]) =>
    all.flatMap((each, at) => {
      const flag = each.replace(/[= ].*/, '').replaceAll('_', '-');
      const message = `${each}: is not allowed: it follows from engine.gpusPerReplica and the types`;
      return OF_GROUPS.includes(flag) ? [{ path: [...path, at], message }] : [];
    });
  return [...problemsIn(given, ['arguments']), ...problemsIn(engine.args, ['engine', 'args'])];
}

function problemsOfReplicas({ replicas, options }: EksFleetSettings): readonly Problem[] {
  if (replicas.min > replicas.max)
    return [{ path: ['replicas', 'min'], message: `${replicas.min}: must be at most replicas.max (${replicas.max})` }];
  const most = options.reduce((sum, { max }) => sum + max, 0);
  if (most >= replicas.max) return [];
  const message = `${replicas.max}: the max of all options have room for ${most}: allowed are 1 to ${most}`;
  return [{ path: ['replicas', 'max'], message }];
}

function problemsOfWeights({ weights, engine }: EksFleetSettings): readonly Problem[] {
  if (weights === undefined || engine.kind === 'vllm') return [];
  const message = `engine.kind ${engine.kind} does not read weights from a bucket: put them into the image`;
  return [{ path: ['weights'], message }];
}

function problemsOfEnvironment({ environment }: EksFleetSettings): readonly Problem[] {
  return Object.keys(environment).flatMap((name) => {
    const why = Object.hasOwn(BY_MANIFEST, name) ? BY_MANIFEST[name] : undefined;
    return why === undefined ? [] : [{ path: ['environment', name], message: `is not allowed: it ${why}` }];
  });
}
