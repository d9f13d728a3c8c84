import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { ConfigError, type Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { describeProblems, type FleetSpec, type OptionSpec, type PoolSpec } from '../../planner/index.ts';
import { START_PHASES as AGENT_PHASES } from '../../protocol/index.ts';

/** Phases of a start in their order: the wait for an instance, then those that its agent measures. */
export const START_PHASES = ['capacity', ...AGENT_PHASES] as const;
export type StartPhase = (typeof START_PHASES)[number];

const seconds = z.number().min(0).max(604_800);
const price = z.number().min(0).max(100_000);
const name = z.string().min(1).max(256);
/** A time, or the shortest and the longest time. */
const duration = z
  .union([seconds, z.tuple([seconds, seconds])], { error: 'must be seconds, or [shortest, longest]' })
  .refine((value) => typeof value === 'number' || value[0] <= value[1], { error: 'must be [shortest, longest]' });

const shortage = z
  .strictObject({
    /** Seconds from the start of the simulation. */
    from: seconds,
    /** @default for ever */
    to: seconds.optional(),
    /** Launches that still succeed during the shortage. @default 0 */
    instances: z.number().int().min(0).max(100_000).optional(),
    /** Code of EC2. @default InsufficientInstanceCapacity */
    code: z
      .string()
      .regex(/^[A-Za-z][A-Za-z.]{2,60}$/, 'must be a code of EC2')
      .optional(),
    /** @default every zone of the option */
    zone: name.optional(),
    /** @default every type of the option */
    type: name.optional(),
  })
  .refine(({ from, to }) => to === undefined || from < to, { path: ['to'], error: 'must be after from' });

const option = z.strictObject({
  start: z.partialRecord(z.enum(START_PHASES), duration).optional(),
  /** Phases that an instance of the warm pool has behind it. @default by the state of the pool */
  warmSkips: z.array(z.enum(START_PHASES)).max(START_PHASES.length).optional(),
  /** US dollars for an instance. @default its GPUs by `--gpu-price` */
  pricePerHour: price.optional(),
  /** US dollars for an instance that waits in the warm pool. @default 0; with state Running, `pricePerHour` */
  warmPricePerHour: price.optional(),
  /** @default the zone of the option, or one zone */
  zones: z.array(name).min(1).max(16).optional(),
  shortages: z.array(shortage).max(64).optional(),
  interruptions: z
    .strictObject({
      /** Interruptions of each instance an hour. @default `--interruptions-per-hour` */
      perHour: z.number().min(0).max(60).optional(),
      /** Seconds at each of which one instance that serves has its notice. */
      at: z.array(seconds).max(1000).optional(),
    })
    .optional(),
});

const conditions = z.strictObject({
  /** Time at which the simulation begins, for `endsAt` of capacity blocks. @default 2026-01-01T00:00:00Z */
  beginsAt: z.iso.datetime({ offset: true }).optional(),
  /** By option: its id, `pool/id` if two pools have the same ids, or `*` for what no other entry says. */
  options: z.record(z.string().max(300), option).optional(),
});

type GivenOption = z.infer<typeof option>;
/** Conditions of a simulated fleet on EC2, as a user gives them. */
export type FleetConditions = z.infer<typeof conditions>;
/** Seconds, or the shortest and the longest time. */
export type Duration = z.infer<typeof duration>;
export type Shortage = z.infer<typeof shortage>;

/** Conditions of one option, with a value for everything. */
export interface OptionConditions {
  readonly start: Readonly<Record<StartPhase, Duration>>;
  readonly warmSkips: readonly StartPhase[];
  readonly pricePerHour: number;
  readonly warmPricePerHour: number;
  readonly zones: readonly string[];
  readonly shortages: readonly Shortage[];
  readonly interruptionsPerHour: number;
  readonly interruptionsAt: readonly number[];
  /** Share of the starts that fail. */
  readonly startFailures: number;
}

/** Values for options of which the conditions say nothing. */
export type Defaults = Pick<Settings<'simulate'>, 'gpuPrice' | 'interruptionsPerHour' | 'startFailures'>;

/**
 * Reads `--fleet-conditions` for a fleet; without it, everything has its default.
 * @throws ConfigError that names the field, its value and what is allowed
 */
export async function readFleetConditions(
  given: Settings<'simulate'>['fleetConditions'],
  fleet: FleetSpec,
): Promise<FleetConditions> {
  if (given === undefined) return {};
  const where = given.kind === 'json' ? '--fleet-conditions' : `--fleet-conditions ${given.path}`;
  const raw = given.kind === 'json' ? given.value : await readJson(given.path, where);
  const read = conditions.safeParse(raw);
  if (!read.success) throw new ConfigError([describeProblems(read.error, raw, where)]);
  checkOptions(read.data, fleet, where);
  return read.data;
}

async function readJson(path: string, where: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (thrown) {
    throw new ConfigError([`${where}: ${reasonOf(thrown)}`]);
  }
}

/** An option of the fleet, with the keys that name it and the zones in which its group launches. */
interface KnownOption extends Pick<OptionSpec, 'market' | 'types'> {
  readonly ids: readonly string[];
  readonly zones: readonly string[];
}

/**
 * @throws ConfigError for an option that the fleet does not have, for interruptions of one that has none, and for
 * shortages in zones or of types that no option has
 */
function checkOptions({ options = {} }: FleetConditions, { pools }: FleetSpec, where: string): void {
  const known = Object.entries(pools).flatMap(([pool, spec]) =>
    (spec?.options ?? []).map(({ id, market, types, zone }) => {
      const { zones = zonesOf(zone) } = givenFor(options, pool, id);
      return { ids: [id, `${pool}/${id}`], market, types, zones };
    }),
  );
  for (const [key, { interruptions, shortages = [] }] of Object.entries(options)) {
    const named = key === '*' ? known : known.filter(({ ids }) => ids.includes(key));
    checkShortages(shortages, named, `${where}.options.${key}`);
    if (key === '*') continue;
    if (named.length === 0) {
      const ids = [...new Set(known.map(({ ids: [id] }) => id))].join(', ');
      throw new ConfigError([`${where}.options.${key}: the fleet has no such option; allowed: *, ${ids}`]);
    }
    if (interruptions !== undefined && named.every(({ market }) => market !== 'spot')) {
      throw new ConfigError([`${where}.options.${key}.interruptions: allowed only for options of market spot`]);
    }
  }
}

function checkShortages(shortages: readonly Shortage[], options: readonly KnownOption[], where: string): void {
  if (options.length === 0) return;
  shortages.forEach(({ zone, type }, at) => {
    const [zones, types] = [options.flatMap((each) => each.zones), options.flatMap((each) => each.types)];
    const refuse = (field: 'zone' | 'type', value: string, allowed: readonly string[]) => {
      const names = [...new Set(allowed)].join(', ');
      const message = `${JSON.stringify(value)}: the option has no such ${field}; allowed: ${names}`;
      throw new ConfigError([`${where}.shortages.${at}.${field} ${message}`]);
    };
    if (zone !== undefined && !zones.includes(zone)) refuse('zone', zone, zones);
    if (type !== undefined && !types.includes(type)) refuse('type', type, types);
  });
}

/** Returns what the conditions say about an option: each field from the most exact entry. */
function givenFor(options: NonNullable<FleetConditions['options']>, pool: string, id: string): GivenOption {
  return { ...options['*'], ...options[id], ...options[`${pool}/${id}`] };
}

/** Returns the zones of an option that the conditions give no zones. */
function zonesOf(zone: string | undefined): readonly string[] {
  return [zone ?? 'zone-1'];
}

/** Returns the conditions of one option. */
export function conditionsOf(
  { options = {} }: FleetConditions,
  pool: string,
  spec: OptionSpec,
  { startSecs }: Pick<PoolSpec, 'startSecs'>,
  { gpuPrice, interruptionsPerHour, startFailures }: Defaults,
): OptionConditions {
  const given = givenFor(options, pool, spec.id);
  const { interruptions = {}, pricePerHour = spec.gpusPerInstance * gpuPrice } = given;
  const isSpot = spec.market === 'spot';
  return {
    start: startOf(given, startSecs),
    warmSkips: given.warmSkips ?? WARM_SKIPS[spec.warmPool?.state ?? 'Stopped'],
    pricePerHour,
    warmPricePerHour: given.warmPricePerHour ?? (spec.warmPool?.state === 'Running' ? pricePerHour : 0),
    zones: given.zones ?? zonesOf(spec.zone),
    shortages: given.shortages ?? [],
    interruptionsPerHour: isSpot ? (interruptions.perHour ?? interruptionsPerHour) : 0,
    interruptionsAt: isSpot ? (interruptions.at ?? []) : [],
    startFailures,
  };
}

/** Phases that an instance has behind it when it waits in a warm pool. Memory is lost if it is stopped. */
const WARM_SKIPS = {
  Stopped: ['capacity', 'image', 'weights', 'compile'],
  Hibernated: ['capacity', 'boot', 'image', 'weights', 'engine', 'compile'],
  Running: ['capacity', 'boot', 'image', 'weights', 'engine', 'compile'],
} as const satisfies Readonly<Record<string, readonly StartPhase[]>>;

/** Without phases, the whole start is one: the engine's. */
function startOf({ start = {} }: GivenOption, startSecs: number): OptionConditions['start'] {
  const given = Object.keys(start).length === 0 ? { engine: startSecs } : start;
  return { capacity: 0, boot: 0, image: 0, weights: 0, engine: 0, compile: 0, register: 0, ...given };
}
