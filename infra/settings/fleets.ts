import * as z from 'zod';
import { nearestName } from '../../shared/errors/index.ts';
import { problemsOfFleet } from './ec2-checks.ts';
import { Ec2Fleet } from './ec2-fleets.ts';
import { problemsOfEksFleet } from './eks-checks.ts';
import { EksFleet } from './eks-fleets.ts';
import { Arguments, checkEnvironment, Environment, type Place, problemsOfArguments } from './environment.ts';
import { Generation, isPlanned, Pool } from './fleet-parts.ts';
import type { GivenTypes } from './gpu-types.ts';
import { Law } from './laws.ts';
import { ModelName, Name } from './names.ts';
import { size } from './sizes.ts';

const Model = z.strictObject({
  /** Whether a worker must always serve it: an alarm fires when none does. */
  wanted: z.boolean().default(true),
  /**
   * Law by which the planner scales its fleets with GPUs. The default, `rate`, needs `rate_requests_per_second`: what
   * one worker serves. Fleets of two pools need `rate_prefill_requests_per_second` and
   * `rate_decode_requests_per_second`.
   */
  planner: Law.optional(),
});

const MockFleet = z.strictObject({
  /** Workers without an engine: they answer in readable random text. */
  kind: z.literal('mock'),
  /** Name of a model in `models`. */
  model: ModelName,
  workers: z.int().min(0).max(64).default(2),
  size: size(256, 512),
  /** Part of a request that its workers do: all of it, or one half, for which the model has a fleet of each. */
  pool: Pool,
  /**
   * Lets two generations of the fleet run side by side: each is a stack of its own, whose workers register in a
   * namespace with this suffix (`DYN_NAMESPACE_WORKER_SUFFIX`). @default none
   */
  generation: Generation,
  /** Further settings of the workers, by their variables. */
  environment: Environment,
  /** Further settings of the workers that have only a flag, such as `--speedup-ratio=4`. */
  arguments: Arguments,
});

/** Models that clients may ask for. */
export const Models = z.record(ModelName, Model).default({ 'stator-mini': { wanted: true } });

/** Workers that serve the models: without an engine, or with GPUs on machines of EC2 or in pods of EKS. */
export const Fleets = z.record(Name, z.discriminatedUnion('kind', [MockFleet, Ec2Fleet, EksFleet])).default({
  mock: {
    kind: 'mock',
    model: 'stator-mini',
    workers: 2,
    pool: 'agg',
    size: { cpu: 256, memoryMiB: 512 },
    environment: {},
    arguments: [],
  },
});

/** Models and who serves them. */
interface Served {
  readonly models: z.infer<typeof Models>;
  readonly fleets: z.infer<typeof Fleets>;
  readonly images: { readonly edge?: string | undefined };
  readonly instanceTypes: GivenTypes;
  readonly eks: { readonly diskGib: number };
  /** Name of the deployment. */
  readonly name: string;
  readonly network: {
    readonly availabilityZones?: readonly string[] | undefined;
    readonly vpc?: { readonly availabilityZones: readonly string[] } | undefined;
  };
}

/** Refuses a fleet without a named model, one without decode workers, and settings that workers do not take. */
export function checkFleets(given: Served, context: z.RefinementCtx): void {
  for (const [name, fleet] of Object.entries(given.fleets)) {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: ['fleets', name, path], message });
    const { model, pool } = fleet;
    if (pool === 'prefill' && !Object.values(given.fleets).some((other) => decodesFor(fleet, other))) {
      refuse('pool', 'prefill needs another fleet of the model with pool: decode, of the same kind and generation');
    }
    if (!Object.hasOwn(given.models, model)) {
      const known = Object.keys(given.models);
      const nearest = nearestName(model, known);
      const hint =
        nearest === undefined
          ? `it is ${JSON.stringify(model)}, known are ${known.join(', ') || 'none'}`
          : `did you mean ${JSON.stringify(nearest)}?`;
      refuse('model', `names no model of models; ${hint}`);
    }
    const place: Place =
      fleet.kind === 'mock'
        ? { role: 'worker', hasOwnImage: given.images.edge !== undefined }
        : { role: 'worker', hasOwnImage: true, engine: fleet.engine.kind };
    const isRight = checkEnvironment(fleet.environment, place, ['fleets', name, 'environment'], context);
    if (fleet.kind !== 'mock') checkGpus(name, fleet, given, context);
    if (!isRight || fleet.arguments.length === 0) continue; // synthesis reports variables that exclude each other
    for (const problem of problemsOfArguments(fleet.arguments, fleet.environment, place)) refuse('arguments', problem);
  }
}

/** Whether a fleet continues the requests of a prefill fleet: workers of another generation have another namespace. */
function decodesFor(prefill: Served['fleets'][string], { model, pool, kind, generation }: typeof prefill): boolean {
  return pool === 'decode' && model === prefill.model && kind === prefill.kind && generation === prefill.generation;
}

type WithGpus = Exclude<Served['fleets'][string], { readonly kind: 'mock' }>;

/** Refuses options that cannot be deployed, and a pool that another fleet has: its options belong to that fleet. */
function checkGpus(name: string, fleet: WithGpus, given: Served, context: z.RefinementCtx): void {
  const { instanceTypes: types, network, eks } = given;
  const zones = network.vpc?.availabilityZones ?? network.availabilityZones;
  const around = { types, zones, diskGib: eks.diskGib };
  const problems =
    fleet.kind === 'ec2'
      ? problemsOfFleet(fleet, around)
      : problemsOfEksFleet(name, fleet, { ...around, deployment: given.name });
  for (const { path, message } of problems)
    context.addIssue({ code: 'custom', path: ['fleets', name, ...path], message });
  const other = Object.entries(given.fleets).find(
    ([, each]) =>
      isPlanned(each) &&
      each.model === fleet.model &&
      each.generation === fleet.generation &&
      (each.pool === fleet.pool || (each.pool === 'agg') !== (fleet.pool === 'agg')),
  );
  if (other === undefined || other[0] === name) return;
  const message = `${fleet.pool}: fleets.${other[0]} has pool ${other[1].pool} of the same model and generation: one planner scales one fleet of each pool`;
  context.addIssue({ code: 'custom', path: ['fleets', name, 'pool'], message });
}

/** Name of a fleet's stack, behind that of the deployment. */
export function stackOf(fleet: string, { generation }: { readonly generation?: string | undefined }): string {
  return `Fleet-${fleet}${generation === undefined ? '' : `-${generation}`}`;
}

/** Lets an edge serve all generations of workers if a fleet has a generation. */
export function namespacesOf({ fleets }: Pick<Served, 'fleets'>): { readonly DYN_NAMESPACE_PREFIX?: string } {
  const hasGenerations = Object.values(fleets).some(({ generation }) => generation !== undefined);
  return hasGenerations ? { DYN_NAMESPACE_PREFIX: 'dynamo' } : {};
}

/**
 * Whether workers reach each other. Those that decode fetch blocks of the KV cache from those that have computed the
 * prompt. EFA lets machines and nodes send only within a group of machines that reach each other.
 */
export function passesBlocks({ fleets }: Pick<Served, 'fleets'>): boolean {
  return Object.values(fleets).some((fleet) => fleet.pool === 'prefill' || (fleet.kind !== 'mock' && fleet.efa));
}
