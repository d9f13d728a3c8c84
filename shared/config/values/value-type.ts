import type { NetworkInterfaceInfo } from 'node:os';

/** Result of reading a text: a value, or what is wrong with the text. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

/** Variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Access to the machine that parsing may need. */
export interface Surroundings {
  readonly homeDir: string;
  readonly env: Environment;
  /** Returns what exists at `path`, following links, or why nothing can exist there or be seen. */
  kindOf(path: string): 'file' | 'folder' | 'none' | { readonly fault: string };
  /** Returns the text of a file; throws if it cannot be read. */
  readText(path: string): string;
  /** Returns the size of a file; throws if it cannot be read. */
  sizeBytes(path: string): number;
  /** Returns the addresses of the machine, by interface. */
  interfaces(): NodeJS.Dict<NetworkInterfaceInfo[]>;
}

/** Kind of file or folder that a path must lead to. */
export interface PathTarget {
  readonly kind: 'file' | 'folder' | 'file or folder';
  /** Whether the process writes it, so that it need not exist. */
  readonly isWritten: boolean;
  /** Exact size of the file. */
  readonly sizeBytes?: number | undefined;
}

/** One type of value: how a text becomes one and how one is shown. */
export interface ValueType<T> {
  /** Short name for help and documentation, with its unit: `int s`. */
  readonly name: string;
  /** Range or allowed values in words; empty if every value is allowed. */
  readonly allowed: string;
  /** Values that are known only to be refused, each with the reason. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Texts that it takes: only its name, the last text, all texts, or everything after `--`. */
  readonly arity: 'switch' | 'one' | 'many' | 'rest';
  /** Kind of path that its texts are, unless they are JSON. */
  readonly target?: PathTarget;
  /** Whether the value is hidden wherever values are shown. */
  readonly isSecret: boolean;
  /** Whether an empty variable is a value of this type (false, or switched off) instead of an unset one. */
  readonly emptyIsValue: boolean;
  /** Reads one text, or the texts of a repeated flag in their order. */
  parse(texts: readonly string[], around: Surroundings): Parsed<T>;
  /** Returns the value as a user would write it, without secrets. */
  show(value: T): string;
}

export function accept<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function refuse(fault: string): { readonly ok: false; readonly fault: string } {
  return { ok: false, fault };
}

interface OneTextType<T> {
  readonly name: string;
  readonly allowed?: string;
  readonly target?: PathTarget;
  parse(text: string, around: Surroundings): Parsed<T>;
  show?(value: T): string;
}

/** Makes a type that reads one text; of a repeated flag the last text counts. */
export function oneText<T>(type: OneTextType<T>): ValueType<T> {
  return {
    name: type.name,
    allowed: type.allowed ?? '',
    arity: 'one',
    ...(type.target === undefined ? {} : { target: type.target }),
    isSecret: false,
    emptyIsValue: false,
    parse: (texts, around) => type.parse(texts.at(-1) ?? '', around),
    show: type.show ?? String,
  };
}

/** Extends `type` by null for `None`, `none`, `null` and the empty text: switched off. */
export function orNone<T>(type: ValueType<T>): ValueType<T | null> {
  return {
    ...type,
    name: `${type.name} or None`,
    allowed: type.allowed === '' ? 'None = off' : `${type.allowed}, None = off`,
    emptyIsValue: true,
    parse: (texts, around) => {
      const text = (texts.at(-1) ?? '').trim();
      return text === '' || text.toLowerCase() === 'none' || text === 'null' ? accept(null) : type.parse(texts, around);
    },
    show: (value) => (value === null ? 'None' : type.show(value)),
  };
}

/** Extends `type` by the word `auto`: something else decides. */
export function orAuto<T>(type: ValueType<T>): ValueType<T | 'auto'> {
  return {
    ...type,
    allowed: type.allowed === '' ? 'auto' : `${type.allowed}, auto`,
    parse: (texts, around) =>
      (texts.at(-1) ?? '').trim().toLowerCase() === 'auto' ? accept('auto') : type.parse(texts, around),
    show: (value) => (value === 'auto' ? 'auto' : type.show(value)),
  };
}
