import {
  type JsonLimits,
  type JsonObject,
  type JsonOrFile,
  jsonObjectType,
  jsonOrFileType,
  jsonTextListType,
  type PathLimits,
  pathType,
} from './values/json.ts';
import {
  decimalType,
  integerType,
  type NumberRange,
  type PortRange,
  portRangeType,
  portType,
} from './values/numbers.ts';
import {
  type BrokerAddresses,
  booleanType,
  brokersType,
  type ChoiceLimits,
  choiceListType,
  choiceType,
  type ListLimits,
  listOfType,
  listType,
  logFilterType,
  restType,
  routeType,
  secretType,
  type TextLimits,
  textType,
  type UrlLimits,
  urlListType,
  urlType,
} from './values/texts.ts';
import { orNone, type ValueType } from './values/value-type.ts';

/** What a default may look at when it is decided at start. */
export interface DefaultFacts {
  readonly process: Process;
  /** Value of another setting by its name; undefined when unset. Rows with a decided default come in table order. */
  read(setting: string): unknown;
}

/** What every row of the table says, whatever its type. */
interface RowFields<P extends Process = Process> {
  /** Flag names with their dashes; the first is the name, the others mean the same. */
  readonly flags?: readonly string[];
  /** Flag names that still work and warn. */
  readonly olderFlags?: readonly string[];
  /** Variable names; the first that is set wins. */
  readonly env?: readonly string[];
  /** Variable names that still work and warn. */
  readonly olderEnv?: readonly string[];
  readonly usedBy: readonly P[];
  /** Who has the setting: Dynamo by its documentation, a release of it (`1.6.1`), an engine, or Stator alone. */
  readonly source: string;
  /** What to use instead; shown in a warning when the row is set. */
  readonly deprecated?: string;
  /** Default in words, when it is decided elsewhere or while running. */
  readonly defaultText?: string;
  /** What the range does not say, e.g. `0 = off`. */
  readonly note?: string;
  /** A bad value falls back to the default with a warning instead of stopping the start. */
  readonly lenient?: true;
  /** One sentence or two for help and documentation. */
  readonly about: string;
}

/** The ways in which a row always has a value. */
type Settled<T> = (
  | { readonly default: T; readonly decide?: never; readonly required?: never }
  | { readonly default?: never; readonly decide: (facts: DefaultFacts) => T; readonly required?: never }
  | { readonly default?: never; readonly decide?: never; readonly required: true }
) & { readonly defaultFor?: Readonly<Partial<Record<Process, T>>> };

/** A row without a default, or with one for some processes only. */
interface Unsettled<T> {
  readonly default?: never;
  readonly decide?: never;
  readonly required?: never;
  readonly defaultFor?: Readonly<Partial<Record<Process, T>>>;
}

/** One setting: its names, its type, its default, its readers. `V` is the type of the resolved value. */
export interface Row<V = unknown, P extends Process = Process>
  extends Required<Pick<RowFields<P>, 'flags' | 'olderFlags' | 'env' | 'olderEnv' | 'usedBy' | 'source' | 'about'>> {
  readonly type: ValueType<V>;
  readonly deprecated: string | undefined;
  readonly lenient: boolean;
  /** Range or allowed values in words; empty when anything goes. */
  readonly allowed: string;
  /** Processes that do not start without it. */
  readonly requiredBy: readonly Process[];
  readonly default: V | undefined;
  readonly defaultFor: Readonly<Partial<Record<Process, V>>>;
  readonly decide: ((facts: DefaultFacts) => V) | undefined;
  readonly defaultText: string | undefined;
}

type AnyFields<T> = RowFields & (Settled<T> | Unsettled<T>);

/** Completes the fields a row leaves out. */
function buildRow<T, P extends Process>(type: ValueType<T>, fields: AnyFields<T>): Row<T, P> {
  const { defaultFor = {} } = fields;
  return {
    type,
    flags: fields.flags ?? [],
    olderFlags: fields.olderFlags ?? [],
    env: fields.env ?? [],
    olderEnv: fields.olderEnv ?? [],
    // The builder's signature ties P to the elements of usedBy; RowFields here has forgotten it.
    usedBy: fields.usedBy as readonly P[],
    source: fields.source,
    deprecated: fields.deprecated,
    lenient: fields.lenient ?? false,
    allowed: [type.allowed, fields.note].filter((part) => part !== undefined && part !== '').join(', '),
    about: fields.about,
    requiredBy: fields.required === true ? fields.usedBy.filter((process) => !(process in defaultFor)) : [],
    default: fields.default,
    defaultFor,
    decide: fields.decide,
    defaultText: fields.defaultText,
  };
}

/** What a row takes, for messages: `int s, >= 1`. Words and paths speak for themselves. */
export function describeAllowed(row: Row): string {
  const isClear = row.type.name === 'enum' || row.type.name === 'file' || row.type.name === 'folder';
  if (row.allowed === '') return row.type.name;
  return isClear ? row.allowed : `${row.type.name}, ${row.allowed}`;
}

// Builders: one for each type of value.

/** Makes rows of one type; the row's value can be undefined unless the fields settle it. */
interface RowBuilder<T, Limits> {
  <const P extends Process>(fields: RowFields<P> & Limits & Settled<T>): Row<T, P>;
  <const P extends Process>(fields: RowFields<P> & Limits & Unsettled<T>): Row<T | undefined, P>;
}

function rowBuilder<T, Limits>(makeType: (limits: Limits) => ValueType<T>): RowBuilder<T, Limits> {
  return <P extends Process>(fields: RowFields<P> & Limits & (Settled<T> | Unsettled<T>)): Row<T, P> =>
    buildRow<T, P>(makeType(fields), fields);
}

/** Free text. */
export const text: RowBuilder<string, TextLimits> = rowBuilder(textType);
/** Text that is never shown. */
export const secret: RowBuilder<string, TextLimits> = rowBuilder(secretType);
/** A switch: `--x`, `--no-x`. */
export const bool: RowBuilder<boolean, object> = rowBuilder(booleanType);
/** A whole number. */
export const int: RowBuilder<number, NumberRange> = rowBuilder(integerType);
/** A whole number, or null when switched off. */
export const intOrNone: RowBuilder<number | null, NumberRange> = rowBuilder((range) => orNone(integerType(range)));
/** A number. */
export const decimal: RowBuilder<number, NumberRange> = rowBuilder(decimalType);
/** A number, or null when switched off. */
export const decimalOrNone: RowBuilder<number | null, NumberRange> = rowBuilder((range) => orNone(decimalType(range)));
/** A TCP port. */
export const port: RowBuilder<number, NumberRange> = rowBuilder(portType);
/** A TCP port, or a range of them to take a free one from. */
export const portRange: RowBuilder<PortRange, NumberRange> = rowBuilder(portRangeType);
/** The path of a route. */
export const route: RowBuilder<string, object> = rowBuilder(routeType);
/** An absolute URL. */
export const url: RowBuilder<string, UrlLimits> = rowBuilder(urlType);
/** Absolute URLs. */
export const urls: RowBuilder<readonly string[], UrlLimits> = rowBuilder(urlListType);
/** Addresses of message brokers. */
export const brokers: RowBuilder<BrokerAddresses, object> = rowBuilder(brokersType);
/** A log filter. */
export const logFilter: RowBuilder<string, object> = rowBuilder(logFilterType);
/** The path of a file. */
export const file: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('file', limits));
/** The path of a folder. */
export const folder: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('folder', limits));
/** The path of a file or folder. */
export const fileOrFolder: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('file or folder', limits));
/** Texts. */
export const list: RowBuilder<readonly string[], ListLimits> = rowBuilder(listType);
/** The arguments after `--`. */
export const rest: RowBuilder<readonly string[], object> = rowBuilder(restType);
/** Ports. */
export const ports: RowBuilder<readonly number[], NumberRange> = rowBuilder((range) =>
  listOfType(portType(range), 'list of ports'),
);
/** A JSON object. */
export const json: RowBuilder<JsonObject, JsonLimits> = rowBuilder(jsonObjectType);
/** A JSON list of texts. */
export const jsonTexts: RowBuilder<readonly string[], JsonLimits> = rowBuilder(jsonTextListType);
/** A JSON object or the path of a file. */
export const jsonOrFile: RowBuilder<JsonOrFile, JsonLimits> = rowBuilder(jsonOrFileType);

/** One of a few words. */
export function choice<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Settled<NoInfer<E>>,
): Row<E, P>;
export function choice<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Unsettled<NoInfer<E>>,
): Row<E | undefined, P>;
export function choice<E extends string, P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & (Settled<E> | Unsettled<E>),
): Row<E, P> {
  return buildRow<E, P>(choiceType(fields), fields);
}

/** Some of a few words. */
export function choices<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Settled<readonly NoInfer<E>[]>,
): Row<readonly E[], P>;
export function choices<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Unsettled<readonly NoInfer<E>[]>,
): Row<readonly E[] | undefined, P>;
export function choices<E extends string, P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & (Settled<readonly E[]> | Unsettled<readonly E[]>),
): Row<readonly E[], P> {
  return buildRow<readonly E[], P>(choiceListType(fields), fields);
}

/** What a setting can be for. All but `function` are commands of `stator`; a function reads variables only. */
export const PROCESSES = ['frontend', 'worker', 'router', 'planner', 'function', 'local', 'simulate'] as const;

/** One kind of process that reads the table. */
export type Process = (typeof PROCESSES)[number];

/** A process that a user starts by its name. */
export type Command = Exclude<Process, 'function'>;

// Sets that many rows share, so that a row names its readers in one word.

/** Everything that listens on a port of its own for clients. */
export const LISTENERS = ['frontend', 'local'] as const;
/** Everything that takes requests from clients. */
export const EDGES = ['frontend', 'function', 'local'] as const;
/** Everything that can hold a router. */
export const ROUTERS = ['frontend', 'router', 'function', 'local', 'simulate'] as const;
/** Routers that live long enough to keep state of their own. */
export const LASTING_ROUTERS = ['frontend', 'router', 'local', 'simulate'] as const;
/** Routers of a fleet, without the simulator. */
export const FLEET_ROUTERS = ['frontend', 'router', 'function', 'local'] as const;
/** Fleet routers that live long enough to keep state of their own. */
export const LASTING_FLEET_ROUTERS = ['frontend', 'router', 'local'] as const;
/** Routers and workers that hold a timing model. */
export const TIMING_MODEL_USERS = ['frontend', 'router', 'worker', 'local', 'simulate'] as const;
/** Every process of a fleet. */
export const FLEET = ['frontend', 'worker', 'router', 'planner', 'function', 'local'] as const;
/** Every process of a fleet that is not a function. */
export const LASTING_FLEET = ['frontend', 'worker', 'router', 'planner', 'local'] as const;
/** Every process of a fleet that runs in the cloud. */
export const CLOUD = ['frontend', 'worker', 'router', 'planner', 'function'] as const;
/** Every process of a fleet that runs in a container. */
export const CONTAINERS = ['frontend', 'worker', 'router', 'planner'] as const;
/** Everything that can hold a worker. */
export const WORKERS = ['worker', 'local'] as const;
/** Everything that can hold a mock engine. */
export const MOCKERS = ['worker', 'local', 'simulate'] as const;
/** Workers and the standalone router, which both serve the request plane and have a status server. */
export const PLANE_SERVERS = ['worker', 'router', 'local'] as const;

/** The command that runs `process`, as a user types it; functions have none. */
export function commandOf(process: Process): string | undefined {
  return process === 'function' ? undefined : `stator ${process}`;
}
