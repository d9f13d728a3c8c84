import { nearestName } from '../../shared/errors/index.ts';
import type { CapacityOption, Ec2FleetSettings } from './ec2-fleets.ts';
import { type GivenTypes, GPU_TYPES, type GpuType, typeOf } from './gpu-types.ts';

/** Something in the settings of a fleet that cannot be deployed, by its path below the fleet. */
export interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Settings beside those of the fleet that it is held against. */
export interface Around {
  readonly types: GivenTypes;
  /** Names of the zones of the network; undefined if the settings do not name them. */
  readonly zones: readonly string[] | undefined;
  /** Disk of a node of EKS, GiB. */
  readonly diskGib: number;
}

/** Returns everything that keeps a fleet from being deployed. */
export function problemsOfFleet(fleet: Ec2FleetSettings, around: Around): readonly Problem[] {
  const options = fleet.options.flatMap((option, at) =>
    problemsOfOption(option, fleet, around).map(({ path, message }) => ({ path: ['options', at, ...path], message })),
  );
  return [
    ...problemsOfModel(fleet),
    ...options,
    ...problemsOfReplicas(fleet, around.types),
    ...problemsOfWeights(fleet),
  ];
}

function problemsOfOption(option: CapacityOption, fleet: Ec2FleetSettings, around: Around): readonly Problem[] {
  return [
    ...problemsOfTypes(option, fleet, around.types),
    ...problemsOfMarket(option),
    ...problemsOfZones(option, fleet, around.zones),
  ];
}

function problemsOfTypes({ types }: CapacityOption, fleet: Ec2FleetSettings, given: GivenTypes): readonly Problem[] {
  const known = knownTypes(types, given);
  if ('problems' in known) return known.problems;
  const [first, ...others] = known.facts;
  if (first === undefined) return [];
  const [name, fact] = first;
  return [...known.unequal, ...problemsOfGpus(name, fact, fleet), ...problemsOfEfa([first, ...others], fleet)];
}

/** Facts of the types of an option, and those that differ from the first; or the problem that some are unknown. */
type KnownTypes =
  | { readonly problems: readonly Problem[] }
  | { readonly facts: readonly (readonly [name: string, fact: GpuType])[]; readonly unequal: readonly Problem[] };

/** Looks the types of an option up. All must have the same number of GPUs, with the same memory. */
export function knownTypes(types: readonly string[], given: GivenTypes): KnownTypes {
  const unknown = types.flatMap((name, at) => {
    if (typeOf(name, given) !== undefined) return [];
    const nearest = nearestName(name, [...GPU_TYPES.keys()]);
    const hint = nearest === undefined ? '' : `did you mean ${nearest}? `;
    return [{ path: ['types', at], message: `${name}: no known type with GPUs; ${hint}instanceTypes adds others` }];
  });
  if (unknown.length > 0) return { problems: unknown };
  const facts = types.map((name) => [name, typeOf(name, given)!] as const); // none is unknown
  const [[firstName, fact] = [], ...others] = facts;
  const unequal = others.flatMap(([name, other], at) => {
    if (fact === undefined || (other.gpus === fact.gpus && other.gpuMemoryMib === fact.gpuMemoryMib)) return [];
    const message = `${name}: has ${shown(other)}, and ${firstName} has ${shown(fact)}: allowed are types alike in both`;
    return [{ path: ['types', at + 1], message }];
  });
  return { facts, unequal };
}

function shown({ gpus, gpuMemoryMib }: GpuType): string {
  return `${gpus} GPUs of ${gpuMemoryMib} MiB`;
}

/** Refuses replicas that leave GPUs of a machine idle, and those that need several machines. */
function problemsOfGpus(name: string, { gpus }: GpuType, { engine }: Ec2FleetSettings): readonly Problem[] {
  if (gpus % engine.gpusPerReplica === 0) return [];
  const divisors = Array.from({ length: gpus }, (_, at) => at + 1).filter((count) => gpus % count === 0);
  const several = gpus < engine.gpusPerReplica ? ': a replica runs on one machine' : '';
  const message = `${name}: has ${gpus} GPUs, and engine.gpusPerReplica is ${engine.gpusPerReplica}: allowed are ${divisors.join(', ')}${several}`;
  return [{ path: ['types', 0], message }];
}

/** Refuses types without EFA, or with different numbers of interfaces. */
export function problemsOfEfa(
  types: readonly (readonly [string, GpuType])[],
  { efa }: Pick<Ec2FleetSettings, 'efa'>,
): readonly Problem[] {
  if (!efa) return [];
  const most = types[0]?.[1].efaInterfaces;
  return types.flatMap(([name, { efaInterfaces }], at) => {
    if (efaInterfaces > 0 && efaInterfaces === most) return [];
    const message = `${name}: has ${efaInterfaces} EFA interfaces: efa: true needs types with one or more, alike in all`;
    return [{ path: ['types', at], message }];
  });
}

/** Refuses settings of a reservation in other markets, and markets without what they need. */
export function problemsOfMarket(option: Omit<CapacityOption, 'zones'>): readonly Problem[] {
  const { market, types, reservationId, endsAt, warmPool, max } = option;
  const problems: Problem[] = [];
  const refuse = (message: string, ...path: readonly string[]) => problems.push({ path, message });
  const isReserved = market === 'reservation' || market === 'capacity-block';
  if (isReserved && reservationId === undefined)
    refuse(`is missing: market ${market} needs the id of the reservation, as cr-0123456789abcdef0`, 'reservationId');
  if (!isReserved && reservationId !== undefined)
    refuse(`${reservationId}: is for market reservation or capacity-block, and market is ${market}`, 'reservationId');
  if (isReserved && types.length > 1)
    refuse(`has ${types.length} entries: market ${market} allows 1, the type of the reservation`, 'types');
  if (market === 'capacity-block' && endsAt === undefined)
    refuse('is missing: a capacity block ends, and its machines must be replaced before', 'endsAt');
  if (!isReserved && endsAt !== undefined)
    refuse(`${endsAt}: is for market reservation or capacity-block, and market is ${market}`, 'endsAt');
  if (isReserved && warmPool !== undefined)
    refuse(`is not allowed with market ${market}: what is reserved is paid for in any case`, 'warmPool');
  if (warmPool !== undefined && warmPool.min > max)
    refuse(`${warmPool.min}: must be at most max (${max})`, 'warmPool', 'min');
  const [first] = types;
  if (market === 'capacity-block' && first !== undefined && GPU_TYPES.get(first)?.quota === 'G')
    refuse(`${first}: is not sold in capacity blocks: allowed are types of the P family`, 'types');
  return problems;
}

function problemsOfZones(
  { market, zones }: CapacityOption,
  { efa }: Ec2FleetSettings,
  known: readonly string[] | undefined,
): readonly Problem[] {
  const isReserved = market === 'reservation' || market === 'capacity-block';
  const why = isReserved ? `market ${market}` : efa ? 'efa: true' : undefined;
  if (why !== undefined && zones?.length !== 1)
    return [
      {
        path: ['zones'],
        message: `${zones === undefined ? 'is missing' : `has ${zones.length} entries`}: ${why} needs one zone`,
      },
    ];
  return problemsOfZoneNames(zones, known);
}

/** Refuses zones that the network does not have. */
export function problemsOfZoneNames(
  zones: readonly string[] | undefined,
  known: readonly string[] | undefined,
): readonly Problem[] {
  if (zones === undefined) return [];
  if (known === undefined) {
    const message = `${zones.join(', ')}: needs network.availabilityZones, or network.vpc, so that zones have names`;
    return [{ path: ['zones'], message }];
  }
  const twice = zones.findIndex((zone, at) => zones.indexOf(zone) !== at);
  if (twice !== -1) return [{ path: ['zones', twice], message: `${zones[twice]}: is named twice` }];
  return zones.flatMap((zone, at) =>
    known.includes(zone)
      ? []
      : [{ path: ['zones', at], message: `${zone}: no zone of the network, which has ${known.join(', ')}` }],
  );
}

/** Refuses a name that edges could not read: commas and blanks separate the names in `STATOR_PLANNED_MODELS`. */
export function problemsOfModel({
  kind,
  model,
}: {
  readonly kind: string;
  readonly model: string;
}): readonly Problem[] {
  if (!/[\s,]/.test(model)) return [];
  return [
    { path: ['model'], message: `${JSON.stringify(model)}: must have no blanks or commas in a fleet of kind ${kind}` },
  ];
}

function problemsOfReplicas(fleet: Ec2FleetSettings, types: GivenTypes): readonly Problem[] {
  const { replicas, options } = fleet;
  if (replicas.min > replicas.max)
    return [{ path: ['replicas', 'min'], message: `${replicas.min}: must be at most replicas.max (${replicas.max})` }];
  const most = options.reduce((sum, option) => sum + option.max * replicasPerInstance(option, fleet, types), 0);
  if (most >= replicas.max) return [];
  const message = `${replicas.max}: the max of all options have room for ${most}: allowed are 1 to ${most}`;
  return most === 0 ? [] : [{ path: ['replicas', 'max'], message }];
}

function problemsOfWeights({ weights, engine }: Ec2FleetSettings): readonly Problem[] {
  if (weights?.mode !== 'stream' || engine.kind === 'vllm') return [];
  return [{ path: ['weights', 'mode'], message: `"stream": engine.kind ${engine.kind} allows "disk" only` }];
}

/** Returns how many replicas a machine of an option has. 0 if its type is unknown. */
export function replicasPerInstance(
  { types: [first = ''] }: Pick<CapacityOption, 'types'>,
  { engine }: Pick<Ec2FleetSettings, 'engine'>,
  types: GivenTypes,
): number {
  return Math.floor((typeOf(first, types)?.gpus ?? 0) / engine.gpusPerReplica);
}

/** Returns what is odd about a fleet and can be deployed: each by the path below the fleet. */
export function warningsOfFleet({ engine, options }: Ec2FleetSettings): readonly Problem[] {
  return [
    ...tagProblems(engine.image, 'machines'),
    ...options.flatMap(({ market, types, warmPool }, at) => {
      if (warmPool === undefined || (market !== 'spot' && types.length === 1)) return [];
      const what = market === 'spot' ? 'market spot' : 'several types';
      const message = `with ${what}: some regions refuse it ("PutWarmPool"); then the deployment of the fleet fails`;
      return [{ path: ['options', at, 'warmPool'], message }];
    }),
  ];
}

/** Warns of an image that a tag names. */
export function tagProblems(image: string, what: 'machines' | 'pods'): readonly Problem[] {
  if (image.includes('@')) return [];
  const message = `${image}: a tag may name another image tomorrow, and ${what} of one fleet would differ; a digest cannot`;
  return [{ path: ['engine', 'image'], message }];
}
