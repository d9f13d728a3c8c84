import {
  type Around,
  knownTypes,
  type Problem,
  problemsOfEfa,
  problemsOfMarket,
  problemsOfModel,
  problemsOfZoneNames,
  tagProblems,
} from './ec2-checks.ts';
import {
  type EksFleetSettings,
  isReserved,
  leastDiskGib,
  modelsGibOf,
  nodePoolNameOf,
  type PodOption,
  placeOf,
  workloadNamesOf,
} from './eks-fleets.ts';
import { type GpuType, typeOf } from './gpu-types.ts';

/** Longest name of a workload: its pods have a label with it, and names that add 17 characters. */
const WORKLOAD_NAME_MAX = 46;
/** Longest name of a node pool: its nodes have a label with it. */
const NODE_POOL_NAME_MAX = 63;

/** Variables that the manifest sets by other settings of the fleet, each with that setting. */
const BY_MANIFEST: Readonly<Record<string, string>> = {
  DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: 'follows from drainSecs of the fleet',
  DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: 'is drainSecs of the fleet',
  STATOR_ENGINE_START_TIMEOUT_SECS: 'is twice startSecs of the fleet',
  HF_HOME: 'is the volume for downloads of the pods',
};

/** Returns everything that keeps a fleet on EKS from being deployed. */
export function problemsOfEksFleet(
  name: string,
  fleet: EksFleetSettings,
  { deployment, ...around }: Around & { readonly deployment: string },
): readonly Problem[] {
  const options = fleet.options.flatMap((option, at) =>
    problemsOfOption(option, fleet, around).map(({ path, message }) => ({ path: ['options', at, ...path], message })),
  );
  return [
    ...problemsOfName(name, fleet, deployment),
    ...problemsOfModel(fleet),
    ...options,
    ...problemsOfReplicas(fleet),
    ...problemsOfWeights(fleet, around),
    ...problemsOfEnvironment(fleet),
    ...problemsOfArguments(fleet),
  ];
}

/** Returns what is odd about a fleet on EKS and can be deployed. */
export function warningsOfEksFleet({ engine, options }: EksFleetSettings, isAutoMode: boolean): readonly Problem[] {
  const reserved = isAutoMode ? options.findIndex(isReserved) : -1;
  const message =
    'from now on, no node of the cluster uses an open reservation that no option names, as Auto Mode does otherwise';
  return [
    ...tagProblems(engine.image, 'pods'),
    ...(reserved === -1 ? [] : [{ path: ['options', reserved, 'reservationId'], message }]),
  ];
}

/** Refuses a name that objects of Kubernetes cannot have. */
function problemsOfName(name: string, fleet: EksFleetSettings, deployment: string): readonly Problem[] {
  if (!/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(name)) {
    const message = 'names objects of Kubernetes: must be lower-case letters, digits and hyphens, and end without one';
    return [{ path: [], message }];
  }
  const workloads = workloadNamesOf(name, fleet);
  const pools = workloads.map((workload) => nodePoolNameOf(deployment, workload));
  const problem = tooLong('workload', workloads, WORKLOAD_NAME_MAX) ?? tooLong('node pool', pools, NODE_POOL_NAME_MAX);
  return problem === undefined ? [] : [{ path: [], message: problem }];
}

function tooLong(what: string, names: readonly string[], charactersMax: number): string | undefined {
  const long = names.find(({ length }) => length > charactersMax);
  return long && `a ${what} would be ${long}, which has ${long.length} characters: allowed are ${charactersMax}`;
}

function problemsOfOption(option: PodOption, fleet: EksFleetSettings, around: Around): readonly Problem[] {
  return [
    ...problemsOfTypes(option, fleet, around),
    ...problemsOfMarket(option),
    ...problemsOfZones(option, fleet, around),
    ...problemsOfZoneNames(option.zones, around.zones),
  ];
}

function problemsOfTypes(option: PodOption, fleet: EksFleetSettings, around: Around): readonly Problem[] {
  const known = knownTypes(option.types, around.types);
  if ('problems' in known) return known.problems;
  const [first, ...others] = known.facts;
  if (first === undefined) return [];
  const fabric = problemsOfEfa([first, ...others], fleet);
  return [
    ...known.unequal,
    ...problemsOfGpus(...first, fleet),
    ...(fabric.length > 0 ? fabric : problemsOfShares(option, fleet, around)),
  ];
}

/** Refuses pods for which a node has no EFA interface left. */
function problemsOfShares(option: PodOption, fleet: EksFleetSettings, { types }: Around): readonly Problem[] {
  const [name = ''] = option.types;
  const interfaces = typeOf(name, types)?.efaInterfaces ?? 0;
  const { perNode } = placeOf(option, fleet, types);
  if (!fleet.efa || interfaces >= perNode) return [];
  const message = `${name}: has ${interfaces} EFA interfaces for the ${perNode} replicas of a node: efa: true needs one for each`;
  return [{ path: ['types', 0], message }];
}

/** Refuses pods that exchange tensors over zones. Kubernetes has no way to keep the pods of a group in any one zone. */
function problemsOfZones(option: PodOption, fleet: EksFleetSettings, { types }: Around): readonly Problem[] {
  const {
    zones,
    types: [first = ''],
  } = option;
  const isGroup = typeOf(first, types) !== undefined && placeOf(option, fleet, types).nodes > 1;
  const isSpread = isGroup && !isReserved(option); // a reservation has one zone
  const why = fleet.efa ? 'efa: true' : isSpread ? 'a replica of several nodes' : undefined;
  if (why === undefined || zones?.length === 1) return [];
  const found = zones === undefined ? 'is missing' : `has ${zones.length} entries`;
  return [{ path: ['zones'], message: `${found}: ${why} needs one zone` }];
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

function problemsOfWeights(fleet: EksFleetSettings, around: Around): readonly Problem[] {
  const { weights, engine } = fleet;
  if (weights === undefined) return [];
  if (weights.mode === 'disk') return problemsOfCopies(weights, fleet, around);
  if (engine.kind === 'vllm') return [];
  return [{ path: ['weights', 'mode'], message: `"stream": engine.kind ${engine.kind} allows "disk" only` }];
}

const GIB = 2 ** 30;

/** Refuses weights that do not fit on the disk of a node, of which each pod has a part. */
function problemsOfCopies(
  { bytes }: NonNullable<EksFleetSettings['weights']>,
  fleet: EksFleetSettings,
  { types, diskGib }: Around,
): readonly Problem[] {
  if (bytes === undefined)
    return [{ path: ['weights', 'bytes'], message: 'is missing: mode: "disk" needs the size of the weights' }];
  const gib = Math.ceil(bytes / GIB);
  return fleet.options.flatMap((option) => {
    const { perNode } = placeOf(option, fleet, types);
    const room = modelsGibOf(diskGib, perNode);
    if (gib <= room) return [];
    const least = leastDiskGib(gib, perNode);
    const message = `${bytes}: are ${gib} GiB, and a pod of ${option.types[0]} has ${room}: raise eks.diskGib to ${least}`;
    return [{ path: ['weights', 'bytes'], message }];
  });
}

function problemsOfEnvironment({ environment }: EksFleetSettings): readonly Problem[] {
  return Object.keys(environment).flatMap((name) => {
    const why = Object.hasOwn(BY_MANIFEST, name) ? BY_MANIFEST[name] : undefined;
    return why === undefined ? [] : [{ path: ['environment', name], message: `is not allowed: it ${why}` }];
  });
}
