import type { NetworkInterfaceInfo } from 'node:os';
import type { InstancePrice } from './values/instance-price.ts';
import { jsonObjectType, jsonOrFileType, jsonTextListType, type PathLimits, pathType } from './values/json.ts';
import { logFilterType } from './values/log-filter.ts';
import { modelPathType } from './values/model-path.ts';
import { decimalType, integerType, type NumberRange, portRangeType, portType } from './values/numbers.ts';
import { type PlannedModel, plannedModelType } from './values/planned-model.ts';
import { instancePricesType, tokenPricesType } from './values/prices.ts';
import {
  attributesType,
  type BrokerAddresses,
  booleanType,
  brokersType,
  type ChoiceLimits,
  choiceListType,
  choiceType,
  listOfType,
  listType,
  restType,
  routeType,
  secretType,
  type TextLimits,
  textType,
  urlListType,
  urlType,
} from './values/texts.ts';
import type { TokenPrice } from './values/token-price.ts';
import { orAuto, orNone, type ValueType } from './values/value-type.ts';

/** Facts that a default may depend on if it is decided at the start. */
export interface DefaultFacts {
  readonly process: Process;
  /** Addresses of this machine. Called only if the default depends on them. */
  interfaces(): NodeJS.Dict<NetworkInterfaceInfo[]>;
  /**
   * Returns the value of another setting by its name; undefined if unset. Rows with a decided default are read in table
   * order.
   */
  read(setting: string): unknown;
}

/** Properties that a row of the table may have, whatever its type. */
interface RowFields {
  /**
   * Flags with their dashes and variables, separated by blanks. The first flag is the name; further flags mean the
   * same. Of several variables, the first that is set wins.
   */
  readonly names?: string;
  /** Flags and variables that still work and cause a warning. */
  readonly olderNames?: string;
  /**
   * Origin of the setting: the documentation of Dynamo, a release of it (`1.6.1`), an engine, or only Stator.
   * @default Stator if the first variable is `STATOR_*`, else 1.6.1, because names of Dynamo stay as they are
   */
  readonly source?: string;
  /** Replacement; shown in a warning if the row is set. */
  readonly deprecated?: string;
  /** Default in words, if it is decided elsewhere or at run time. */
  readonly defaultText?: string;
  /** Note on values beyond the range, e.g. `0 = off`. */
  readonly note?: string;
  /** Whether a bad value falls back to the default with a warning instead of ending the start. */
  readonly lenient?: true;
  /** One or two sentences for help and documentation. */
  readonly about: string;
}

/** Ways in which a row always has a value. */
type Settled<T> = (
  | { readonly default: T; readonly decide?: never; readonly required?: never }
  | { readonly default?: never; readonly decide: (facts: DefaultFacts) => T; readonly required?: never }
  | { readonly default?: never; readonly decide?: never; readonly required: true }
) & { readonly defaultFor?: Readonly<Partial<Record<Process, T>>> };

/** A row without a default, or with a default for some processes only. */
interface Unsettled<T> {
  readonly default?: never;
  readonly decide?: never;
  readonly required?: never;
  readonly defaultFor?: Readonly<Partial<Record<Process, T>>>;
}

/** One setting: its names, its type, its default, its readers. `V` is the type of the resolved value. */
export interface Row<V = unknown, P extends Process = Process> {
  readonly type: ValueType<V>;
  readonly flags: readonly string[];
  readonly olderFlags: readonly string[];
  readonly env: readonly string[];
  readonly olderEnv: readonly string[];
  readonly usedBy: readonly P[];
  readonly source: string;
  readonly deprecated: string | undefined;
  readonly lenient: boolean;
  /** Range or allowed values in words; empty if every value is allowed. */
  readonly allowed: string;
  readonly about: string;
  /** Processes that do not start without it. */
  readonly requiredBy: readonly Process[];
  readonly default: V | undefined;
  readonly defaultFor: Readonly<Partial<Record<Process, V>>>;
  readonly decide: ((facts: DefaultFacts) => V) | undefined;
  readonly defaultText: string | undefined;
}

type AnyFields<T> = RowFields & (Settled<T> | Unsettled<T>);

/** Completes the properties that a row leaves out. */
function buildRow<T, P extends Process>(usedBy: readonly P[], type: ValueType<T>, fields: AnyFields<T>): Row<T, P> {
  const { defaultFor = {}, names = '', olderNames = '' } = fields;
  const env = variablesIn(names);
  return {
    type,
    flags: flagsIn(names),
    olderFlags: flagsIn(olderNames),
    env,
    olderEnv: variablesIn(olderNames),
    usedBy,
    source: fields.source ?? (env[0]?.startsWith('STATOR_') === true ? 'Stator' : '1.6.1'),
    deprecated: fields.deprecated,
    lenient: fields.lenient ?? false,
    allowed: [type.allowed, fields.note].filter((part) => part !== undefined && part !== '').join(', '),
    about: fields.about,
    requiredBy: fields.required === true ? usedBy.filter((process) => !(process in defaultFor)) : [],
    default: fields.default,
    defaultFor,
    decide: fields.decide,
    defaultText: fields.defaultText,
  };
}

function flagsIn(names: string): readonly string[] {
  return names.split(' ').filter((name) => name.startsWith('-'));
}

function variablesIn(names: string): readonly string[] {
  return names.split(' ').filter((name) => /^[A-Z]/.test(name));
}

/** Returns what a row accepts, for messages: `int s, >= 1`. Words and paths need no type. */
export function describeAllowed(row: Row): string {
  const isClear = row.type.name === 'enum' || row.type.name === 'file' || row.type.name === 'folder';
  if (row.allowed === '') return row.type.name;
  return isClear ? row.allowed : `${row.type.name}, ${row.allowed}`;
}

/** Makes rows of one type; the row's value can be undefined unless the fields settle it. */
interface RowBuilder<T, Limits, P extends Process> {
  (fields: RowFields & Limits & Settled<T>): Row<T, P>;
  (fields: RowFields & Limits & Unsettled<T>): Row<T | undefined, P>;
}

/** Makes rows of one of a few words. */
interface ChoiceBuilder<P extends Process> {
  <const E extends string>(fields: RowFields & ChoiceLimits<E> & Settled<NoInfer<E>>): Row<E, P>;
  <const E extends string>(fields: RowFields & ChoiceLimits<E> & Unsettled<NoInfer<E>>): Row<E | undefined, P>;
}

/** Makes rows of some of a few words. */
interface ChoicesBuilder<P extends Process> {
  <const E extends string>(fields: RowFields & ChoiceLimits<E> & Settled<readonly NoInfer<E>[]>): Row<readonly E[], P>;
  <const E extends string>(
    fields: RowFields & ChoiceLimits<E> & Unsettled<readonly NoInfer<E>[]>,
  ): Row<readonly E[] | undefined, P>;
}

/** Fields of a switch, which is off without a default. */
interface SwitchFields extends RowFields {
  readonly default?: boolean;
  readonly defaultFor?: Readonly<Partial<Record<Process, boolean>>>;
}

/** Limits of a number. */
interface Ranged {
  readonly range?: NumberRange;
}

/** Makes builders for the rows that `usedBy` read: one builder for each type of value. */
export function rowsFor<const P extends Process>(...usedBy: readonly P[]) {
  const of =
    <T, Limits>(makeType: (limits: Limits) => ValueType<T>): RowBuilder<T, Limits, P> =>
    (fields: AnyFields<T> & Limits) =>
      buildRow(usedBy, makeType(fields), fields);
  const ofNumbers = <T>(makeType: (range: NumberRange) => ValueType<T>) =>
    of(({ range = {} }: Ranged) => makeType(range));
  const choice: ChoiceBuilder<P> = <E extends string>(fields: AnyFields<E> & ChoiceLimits<E>): Row<E, P> =>
    buildRow(usedBy, choiceType(fields), fields);
  const choices: ChoicesBuilder<P> = <E extends string>(fields: AnyFields<readonly E[]> & ChoiceLimits<E>) =>
    buildRow<readonly E[], P>(usedBy, choiceListType(fields), fields);
  return {
    usedBy,
    /** Free text. */
    text: of(textType),
    /** Text that is never shown. */
    secret: of(secretType),
    /** Text that is never shown, or null when there is none. */
    secretOrNone: of((limits: TextLimits) => orNone(secretType(limits))),
    /** A switch, `--x` and `--no-x`: off, unless the row says otherwise. */
    bool: (fields: SwitchFields): Row<boolean, P> => buildRow(usedBy, booleanType(), { default: false, ...fields }),
    /** A switch for which it matters whether it was given. */
    boolOrUnset: of<boolean, object>(booleanType),
    /** A whole number. */
    int: ofNumbers(integerType),
    /** A whole number, or null when switched off. */
    intOrNone: ofNumbers((range) => orNone(integerType(range))),
    /** A number. */
    decimal: ofNumbers(decimalType),
    /** Numbers. */
    decimals: ofNumbers((range) => listOfType(decimalType(range), 'list of numbers')),
    /** A number, or null when switched off. */
    decimalOrNone: ofNumbers((range) => orNone(decimalType(range))),
    /** A number, null when switched off, or `auto`. */
    decimalOrAuto: ofNumbers((range) => orAuto(orNone(decimalType(range)))),
    /** A TCP port. */
    port: ofNumbers(portType),
    /** TCP ports. */
    ports: ofNumbers((range) => listOfType(portType(range), 'list of ports')),
    /** A TCP port, or a range of them to take a free one from. */
    portRange: ofNumbers(portRangeType),
    /** The path of a route. */
    route: of<string, object>(routeType),
    /** An absolute URL. */
    url: of(urlType),
    /** Absolute URLs. */
    urls: of(urlListType),
    /** Addresses of message brokers. */
    brokers: of<BrokerAddresses, object>(brokersType),
    /** Names and their values. */
    attributes: of<Readonly<Record<string, string>>, object>(attributesType),
    /** A log filter. */
    logFilter: of<string, object>(logFilterType),
    /** The path of a file. */
    file: of((limits: PathLimits) => pathType('file', limits)),
    /** The path of a file of certificates or a key. */
    pem: of((limits: PathLimits) => pathType('file', { allowed: 'PEM', ...limits })),
    /** The path of a folder. */
    folder: of((limits: PathLimits) => pathType('folder', limits)),
    /** The path of a model folder, or the name of a model on a hub. */
    modelPath: of<string, object>(modelPathType),
    /** The path of a file or folder. */
    fileOrFolder: of((limits: PathLimits) => pathType('file or folder', limits)),
    /** Texts. */
    list: of(listType),
    /** Models whose workers a planner starts. */
    plannedModels: of<readonly PlannedModel[], object>(() => listOfType(plannedModelType(), 'list of models')),
    /** Prices of machines. */
    instancePrices: of<readonly InstancePrice[], object>(instancePricesType),
    /** Prices of tokens. */
    tokenPrices: of<readonly TokenPrice[], object>(tokenPricesType),
    /** The arguments after `--`. */
    rest: of<readonly string[], object>(restType),
    /** A JSON object. */
    json: of(jsonObjectType),
    /** A JSON list of texts. */
    jsonTexts: of(jsonTextListType),
    /** A JSON object or the path of a file. */
    jsonOrFile: of(jsonOrFileType),
    /** One of a few words. */
    choice,
    /** Some of a few words. */
    choices,
  };
}

/**
 * Processes that settings can apply to. All except `function` are commands of `stator`; a function reads only
 * variables.
 */
export const PROCESSES = ['frontend', 'worker', 'router', 'planner', 'host', 'function', 'local', 'simulate'] as const;

/** One kind of process that reads the table. */
export type Process = (typeof PROCESSES)[number];

/** A process that a user starts by its name. */
export type Command = Exclude<Process, 'function'>;

// Builders by reader, so that a row names its readers in one word.

/** Every process that listens on its own port for clients. */
export const listeners = rowsFor('frontend', 'local');
/** Every process that takes requests from clients. */
export const edges = rowsFor('frontend', 'function', 'local');
/** Every process that can hold a router. */
export const routers = rowsFor('frontend', 'router', 'function', 'local', 'simulate');
/** Routers that live long enough to keep state of their own. */
export const lastingRouters = rowsFor('frontend', 'router', 'local', 'simulate');
/** Routers of a fleet, without the simulator. */
export const fleetRouters = rowsFor('frontend', 'router', 'function', 'local');
/** Fleet routers that live long enough to keep state of their own. */
export const lastingFleetRouters = rowsFor('frontend', 'router', 'local');
/** Routers and workers that hold a timing model. */
export const timingModelUsers = rowsFor('frontend', 'router', 'worker', 'local', 'simulate');
/** Every process of a fleet. */
export const fleet = rowsFor('frontend', 'worker', 'router', 'planner', 'function', 'local');
/** Every process of a fleet that is not a function. */
export const lastingFleet = rowsFor('frontend', 'worker', 'router', 'planner', 'local');
/** Every process of a fleet that runs in the cloud. */
export const cloud = rowsFor('frontend', 'worker', 'router', 'planner', 'function');
/** Every process of a fleet that runs in a container. */
export const containers = rowsFor('frontend', 'worker', 'router', 'planner');
/** Edges of a deployed fleet. */
export const cloudEdges = rowsFor('frontend', 'function');
/** Every process that can hold a worker. */
export const workers = rowsFor('worker', 'local');
/** Every process that can hold a mock engine. */
export const mockers = rowsFor('worker', 'local', 'simulate');
/** Workers and the standalone router, which both serve the request plane and have a status server. */
export const planeServers = rowsFor('worker', 'router', 'local');
/** Single commands. */
export const frontend = rowsFor('frontend');
export const worker = rowsFor('worker');
export const router = rowsFor('router');
export const planner = rowsFor('planner');
export const simulate = rowsFor('simulate');

/** Returns the command that runs `process`, as a user types it; undefined for functions. */
export function commandOf(process: Process): string | undefined {
  return process === 'function' ? undefined : `stator ${process}`;
}
