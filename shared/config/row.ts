import type { Process } from './processes.ts';
import type { ValueType } from './values/value-type.ts';

/** What a default may look at when it is decided at start. */
export interface DefaultFacts {
  readonly process: Process;
  /** Value of another setting by its name; undefined when unset. Rows with a decided default come in table order. */
  read(setting: string): unknown;
}

/** What every row of the table says, whatever its type. */
export interface RowFields<P extends Process = Process> {
  /** Flag names with their dashes; the first is the name, the others mean the same. */
  readonly flags?: readonly string[];
  /** Flag names that still work and warn. */
  readonly olderFlags?: readonly string[];
  /** Variable names; the first that is set wins. */
  readonly env?: readonly string[];
  /** Variable names that still work and warn. */
  readonly olderEnv?: readonly string[];
  /** Names in the planner's configuration file; the first is the name. */
  readonly keys?: readonly string[];
  readonly usedBy: readonly P[];
  /** Who has the setting: Dynamo by its documentation, a release of it (`1.6.1`), an engine, or Stator alone. */
  readonly source: string;
  /** Whether the feature behind the row works today; a setting of one that does not is accepted with a warning. */
  readonly built: boolean;
  /** What to do where the feature is not built; shown in the warning. */
  readonly instead?: string;
  /** What to use instead; shown in a warning when the row is set. */
  readonly deprecated?: string;
  /** Default in words, when it is decided elsewhere or while running. */
  readonly defaultText?: string;
  /** What the range does not say, e.g. `0 = off`. */
  readonly note?: string;
  /** Processes that do not start without it; `required` says it of all that read the row. */
  readonly requiredBy?: readonly P[];
  /** A bad value falls back to the default with a warning instead of stopping the start. */
  readonly lenient?: true;
  /** One sentence or two for help and documentation. */
  readonly about: string;
}

/** The ways in which a row always has a value. */
export type Settled<T> = (
  | { readonly default: T; readonly decide?: never; readonly required?: never }
  | { readonly default?: never; readonly decide: (facts: DefaultFacts) => T; readonly required?: never }
  | { readonly default?: never; readonly decide?: never; readonly required: true }
) & { readonly defaultFor?: Readonly<Partial<Record<Process, T>>> };

/** A row without a default, or with one for some processes only. */
export interface Unsettled<T> {
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
  readonly keys: readonly string[];
  readonly usedBy: readonly P[];
  readonly source: string;
  readonly built: boolean;
  readonly instead: string | undefined;
  readonly deprecated: string | undefined;
  readonly lenient: boolean;
  /** Range or allowed values in words; empty when anything goes. */
  readonly allowed: string;
  readonly about: string;
  /** Processes that do not start without it. */
  readonly requiredBy: readonly Process[];
  readonly default: V | undefined;
  readonly defaultFor: Readonly<Partial<Record<Process, V>>>;
  decide: ((facts: DefaultFacts) => V) | undefined;
  readonly defaultText: string | undefined;
}

/** Rows of one section under its heading. */
export interface RowGroup<R extends Readonly<Record<string, Row>> = Readonly<Record<string, Row>>> {
  readonly title: string;
  readonly rows: R;
}

type AnyFields<T> = RowFields & (Settled<T> | Unsettled<T>);

function requiredBy<T>(fields: AnyFields<T>): readonly Process[] {
  const { requiredBy: some = [], required, defaultFor = {} } = fields;
  return required === true ? fields.usedBy.filter((process) => !(process in defaultFor)) : some;
}

/** Completes the fields a row leaves out. */
export function buildRow<T, P extends Process>(type: ValueType<T>, fields: AnyFields<T>): Row<T, P> {
  return {
    type,
    flags: fields.flags ?? [],
    olderFlags: fields.olderFlags ?? [],
    env: fields.env ?? [],
    olderEnv: fields.olderEnv ?? [],
    keys: fields.keys ?? [],
    // The builder's signature ties P to the elements of usedBy; RowFields here has forgotten it.
    usedBy: fields.usedBy as readonly P[],
    source: fields.source,
    built: fields.built,
    instead: fields.instead,
    deprecated: fields.deprecated,
    lenient: fields.lenient ?? false,
    allowed: [type.allowed, fields.note].filter((part) => part !== undefined && part !== '').join(', '),
    about: fields.about,
    requiredBy: requiredBy(fields),
    default: fields.default,
    defaultFor: fields.defaultFor ?? {},
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
