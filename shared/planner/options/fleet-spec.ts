import * as z from 'zod';
import type { PerPool } from '../types.ts';

const count = z.number().int().min(0).max(100_000);
const gpus = z.number().int().min(1).max(4096);
const seconds = z.number().min(0).max(86_400);
const name = z.string().min(1).max(256);

const option = z
  .strictObject({
    /** Place in the list and market: `0-on-demand`. */
    id: z.string().regex(/^\d+-(on-demand|spot|capacity-block)$/, 'must be like 0-on-demand, 1-spot, 2-capacity-block'),
    /** Name of its Auto Scaling group. */
    group: name,
    types: z.array(name).min(1).max(40),
    market: z.enum(['on-demand', 'spot', 'capacity-block']),
    zone: name.optional(),
    gpusPerInstance: gpus,
    /** Workers of an instance; 0: an engine needs several instances. */
    replicasPerInstance: count,
    /** Bounds of the group, in instances. */
    min: count,
    max: count,
    warmPool: z.strictObject({ min: count, state: z.enum(['Stopped', 'Hibernated', 'Running']) }).optional(),
    /** Capacity reservation, or capacity block, in which its instances run. */
    reservation: name.optional(),
    /** End of a capacity block, as an ISO time. */
    endsAt: z.iso.datetime({ offset: true }).optional(),
  })
  .refine(({ min, max }) => min <= max, { path: ['min'], error: 'must not be above max' });

const pool = z
  .strictObject({
    options: z.array(option).min(1).max(16),
    gpusPerReplica: gpus,
    /** Seconds from a launch to a worker that serves, until some were measured. */
    startSecs: seconds,
    /** Longest drain of a worker. */
    drainSecs: seconds,
    /** Lifecycle hook that holds new instances until they serve. @default launch */
    launchHook: name.optional(),
  })
  .superRefine(({ options, gpusPerReplica }, context) => {
    options.forEach(({ id, gpusPerInstance, replicasPerInstance }, at) => {
      const fits = Math.floor(gpusPerInstance / gpusPerReplica);
      if (replicasPerInstance !== fits) {
        context.addIssue({
          code: 'custom',
          path: ['options', at, 'replicasPerInstance'],
          message: `must be ${fits}: ${gpusPerInstance} GPUs of an instance hold that many of ${gpusPerReplica}`,
        });
      }
      if (options.findIndex((other) => other.id === id) !== at) {
        context.addIssue({ code: 'custom', path: ['options', at, 'id'], message: `${id} is there twice` });
      }
    });
  });

const fleet = z.strictObject({
  namespace: name,
  model: name,
  /** Pools by name; the workers of an aggregated fleet are its `decode` pool. */
  pools: z.strictObject({ prefill: pool.optional(), decode: pool.optional() }),
  /** Settings of the law, as `--planner-config` takes them. */
  planner: z.record(z.string(), z.unknown()).optional(),
});

const fleets = z.strictObject({
  /** Most GPUs of all models together. */
  gpusMax: count.optional(),
  fleets: z.array(fleet).max(1000),
});

/** One capacity option of a pool: one Auto Scaling group. */
export type OptionSpec = z.infer<typeof option> & {
  /** Types as messages name them. @default types */
  readonly shownTypes?: readonly string[] | undefined;
};
/** A pool of instances, with its options in the order in which they are tried. */
export type PoolSpec = Omit<z.infer<typeof pool>, 'options'> & { readonly options: readonly OptionSpec[] };
/** The EC2 fleet of one model. */
export type FleetSpec = Omit<z.infer<typeof fleet>, 'pools'> & {
  readonly pools: PerPool<PoolSpec | undefined>;
};
/** All fleets that a planner scales on EC2. */
export type FleetSpecs = Omit<z.infer<typeof fleets>, 'fleets'> & { readonly fleets: readonly FleetSpec[] };

/** The fleets that a planner is given cannot be used. The message names the field, its value and what is allowed. */
export class FleetSpecError extends Error {
  override readonly name = 'FleetSpecError';
}

const SHOWN_MAX = 80;
const PROBLEMS_MAX = 8;

/**
 * Reads the fleets of a planner from JSON.
 * @param where name of the setting, for the message
 * @throws FleetSpecError
 */
export function readFleetSpecs(text: string, where: string): FleetSpecs {
  return readSpecs(fleets, text, where);
}

/**
 * Reads JSON that has the shape of a schema.
 * @param where name of the setting, for the message
 * @throws FleetSpecError
 */
export function readSpecs<Schema extends z.ZodType>(schema: Schema, text: string, where: string): z.infer<Schema> {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    throw new FleetSpecError(`${where} is not JSON`);
  }
  const read = schema.safeParse(raw);
  if (read.success) return read.data;
  throw new FleetSpecError(describeProblems(read.error, raw, where));
}

/** Returns the first problems of a value in words: each with its field, its value and what is allowed. */
export function describeProblems({ issues }: z.ZodError, raw: unknown, where: string): string {
  const problems = issues.slice(0, PROBLEMS_MAX).map(({ path, message }) => {
    const value = JSON.stringify(path.reduce<unknown>((of, key) => (of as Record<PropertyKey, unknown>)?.[key], raw));
    return `${[where, ...path].join('.')} ${(value ?? 'left out').slice(0, SHOWN_MAX)}: ${message}`;
  });
  return problems.join('; ');
}

/** Smallest piece by which an option changes: some workers, and the instances that they need. */
export interface Unit {
  readonly replicas: number;
  readonly instances: number;
}

/** Returns the unit of an option: an instance with its workers, or the instances of one engine. */
export function unitOf({ replicasPerInstance, gpusPerInstance }: OptionSpec, { gpusPerReplica }: PoolSpec): Unit {
  if (replicasPerInstance > 0) return { replicas: replicasPerInstance, instances: 1 };
  return { replicas: 1, instances: Math.ceil(gpusPerReplica / gpusPerInstance) };
}
