import { randomUUID } from 'node:crypto';

/** An object as the API shows it. */
export type KubeObject = Readonly<Record<string, unknown>> & { readonly metadata: KubeMetadata };

export interface KubeMetadata {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly { readonly uid: string }[];
  readonly [field: string]: unknown;
}

/** A change as watches tell it. `before` is the object that it replaced. */
export interface StoreChange {
  readonly version: number;
  readonly before: KubeObject | undefined;
  /** Undefined if the object was removed; `last` then has it, with the version of its removal. */
  readonly after: KubeObject | undefined;
  readonly last: KubeObject;
}

type Plain = Record<string, unknown>;

/**
 * Objects of one resource in one namespace, with the history that watches replay. Versions count the changes of all
 * resources, as in etcd.
 */
export class ObjectStore {
  readonly #nextVersion: () => number;
  readonly #objects = new Map<string, KubeObject>();
  /** Fields that each field manager applied last, by the name of the object. */
  readonly #applied = new Map<string, Map<string, Plain>>();
  #history: StoreChange[] = [];
  /** Version from which the history is complete. */
  #floor = 0;
  readonly #listeners = new Set<(change: StoreChange) => void>();

  constructor(nextVersion: () => number) {
    this.#nextVersion = nextVersion;
  }

  get objects(): readonly KubeObject[] {
    return [...this.#objects.values()].sort((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
  }

  get(name: string): KubeObject | undefined {
    return this.#objects.get(name);
  }

  /** Creates or replaces an object. */
  set(name: string, value: Plain): KubeObject {
    const before = this.#objects.get(name);
    const version = this.#nextVersion();
    const metadata = {
      ...(value.metadata as Plain),
      name,
      uid: before?.metadata.uid ?? randomUUID(),
      resourceVersion: String(version),
    };
    const after = { ...value, metadata } as KubeObject;
    this.#objects.set(name, after);
    this.#tell({ version, before, after, last: after });
    return after;
  }

  /** Applies what a field manager wants, server-side: sets its fields, and removes those that it no longer names. */
  apply(name: string, manager: string, wanted: Plain): KubeObject {
    const managers = this.#applied.get(name) ?? new Map<string, Plain>();
    const object = structuredClone(this.#objects.get(name) ?? {}) as Plain;
    const before = JSON.stringify(object);
    const others = [...managers].filter(([other]) => other !== manager).map(([, applied]) => applied);
    removeLeft(object, managers.get(manager) ?? {}, wanted, others);
    mergeInto(object, wanted);
    this.#applied.set(name, managers.set(manager, structuredClone(wanted)));
    const existing = this.#objects.get(name);
    // An apply that changes nothing makes no version.
    return existing !== undefined && JSON.stringify(object) === before ? existing : this.set(name, object);
  }

  /** Merges a patch (RFC 7386) into an object that exists. */
  merge(name: string, patch: Plain): KubeObject | undefined {
    const object = this.#objects.get(name);
    if (object === undefined) return undefined;
    const merged = structuredClone(object) as Plain;
    mergeInto(merged, patch);
    // A patch that changes nothing makes no version.
    return JSON.stringify(merged) === JSON.stringify(object) ? object : this.set(name, merged);
  }

  remove(name: string): KubeObject | undefined {
    const before = this.#objects.get(name);
    if (before === undefined) return undefined;
    this.#objects.delete(name);
    this.#applied.delete(name);
    const version = this.#nextVersion();
    const last = { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } };
    this.#tell({ version, before, after: undefined, last });
    return last;
  }

  /** Forgets the history, as the server does with what is old. */
  compact(version: number): void {
    this.#history = [];
    this.#floor = version;
  }

  /** Returns the changes after a version; undefined if they are forgotten. */
  since(version: number): readonly StoreChange[] | undefined {
    return version < this.#floor ? undefined : this.#history.filter((change) => change.version > version);
  }

  listen(listener: (change: StoreChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(change: StoreChange): void {
    this.#history.push(change);
    for (const listener of [...this.#listeners]) listener(change);
  }
}

function isPlain(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mergeInto(object: Plain, patch: Plain): void {
  for (const [key, value] of Object.entries(patch)) {
    const present = object[key];
    if (value === null) delete object[key];
    else if (isPlain(value) && isPlain(present)) mergeInto(present, value);
    else object[key] = structuredClone(value);
  }
}

/** Removes from `object` what `before` names and `wanted` does not, unless another manager names it. */
function removeLeft(object: Plain, before: Plain, wanted: Plain, others: readonly Plain[]): void {
  for (const [key, value] of Object.entries(before)) {
    const [present, next] = [object[key], wanted[key]];
    const named = others.filter((other) => key in other).map((other) => other[key]);
    if (next === undefined && named.length === 0) delete object[key];
    else if (isPlain(value) && isPlain(present)) {
      removeLeft(present, value, isPlain(next) ? next : {}, named.filter(isPlain));
    }
  }
}
