import type { Random } from '../../clock/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import type { RoutingHints } from '../../protocol/index.ts';
import type { WorkerSetRecord } from '../../scheduler/index.ts';
import type { RoutableModel, Worker } from './routable-model.ts';

const NO_WORKERS: readonly Worker[] = [];

/** Returns the worker sets of a model, the model itself first. Each has the names of the model. */
export function setsOf(model: RoutableModel): readonly RoutableModel[] {
  const { otherSets, name, primaryName, createdSecs } = model;
  if (otherSets === undefined) return [model];
  return [model, ...otherSets.map((set) => ({ ...set, name, primaryName, createdSecs }))];
}

/** Returns the pools of a model as routing follows them: for each worker set its own, and its prefill workers. */
export function workerSetsOf(model: RoutableModel): readonly RoutableModel[] {
  return setsOf(model).flatMap((set) => {
    const { prefill } = set;
    const own = set.workers.length > 0 ? set : { ...set, workers: routableWorkers(set) };
    return prefill === undefined ? [own] : [own, { ...set, ...prefill, prefill: undefined }];
  });
}

/**
 * Returns the workers that may take a request of the model: those that take new ones, otherwise those that end running
 * ones.
 */
export function routableWorkers({ workers, standing = NO_WORKERS }: RoutableModel): readonly Worker[] {
  return workers.length > 0 ? workers : standing;
}

/**
 * Returns whether two workers have the same id and address. The address of an instance may change: a standby that takes
 * over for it has the same id.
 */
export function isSameProcess(one: Pick<Worker, 'id' | 'transport'>, other: Pick<Worker, 'id' | 'transport'>): boolean {
  if (one.id !== other.id) return false;
  const [transport, others] = [one.transport, other.transport];
  if (transport === others) return true;
  const kinds = Object.keys(transport);
  return kinds.length === Object.keys(others).length && kinds.every((kind) => transport[kind] === others[kind]);
}

/** Returns a text that is the same for the same process only, as `isSameProcess` tells them apart. */
export function nameOfProcess({ id, transport }: Pick<Worker, 'id' | 'transport'>): string {
  const addresses = Object.keys(transport).sort();
  return [id, ...addresses.map((kind) => `${kind}=${transport[kind]}`)].join(' ');
}

/**
 * Returns the worker set of `model` that is `set` as it is now. If that has gone, returns one with the same card whose
 * workers have another role. Undefined if there is none: tokens have another meaning at workers with another card.
 */
export function sameSet(model: RoutableModel | undefined, set: RoutableModel): RoutableModel | undefined {
  if (model === undefined) return undefined;
  if (model.otherSets === undefined) return model.mdcSum === set.mdcSum ? model : undefined;
  const alike = setsOf(model).filter(({ mdcSum }) => mdcSum === set.mdcSum);
  return alike.find(({ pool }) => pool.role === set.pool.role) ?? alike[0];
}

/** Needs of a request that decide between worker sets. */
interface SetAsk {
  /** Kind of request that the set must serve. */
  readonly type: ModelType;
  readonly routing: RoutingHints;
  /** Returns whether a worker may answer the request. @default any may */
  readonly admits?: ((worker: Worker) => boolean) | undefined;
}

/**
 * Chooses the worker set for a request at random, each as often as it has workers. So while a fleet is replaced, the
 * requests move to the new workers as these come. A request that names its worker goes to the set of that worker.
 */
export function chooseSet(model: RoutableModel, ask: SetAsk, random: Pick<Random, 'below'>): RoutableModel {
  if (model.otherSets === undefined) return model;
  return drawSet(setsFor(model, ask), random) ?? model;
}

/** Returns the worker sets of which `chooseSet` chooses one. */
export function setsFor(model: RoutableModel, { type, routing, admits }: SetAsk): readonly RoutableModel[] {
  const open = openSets(model, type);
  const sets = admits === undefined ? open : open.filter(({ workers }) => workers.some(admits));
  const named = sets.filter((set) => hasNamed(set, routing));
  return named.length > 0 ? named : sets;
}

/** Returns the worker set with the most workers, which most requests go to; the first one of several such sets. */
export function largestSet(model: RoutableModel): RoutableModel {
  return setsOf(model).reduce((most, set) => (set.workers.length > most.workers.length ? set : most));
}

/** Describes `set`; undefined if the model has no other set. */
export function describeSet(model: RoutableModel, set: RoutableModel): WorkerSetRecord | undefined {
  if (model.otherSets === undefined) return undefined;
  const all = setsOf(model).reduce((sum, { workers }) => sum + workers.length, 0);
  return { card: set.mdcSum, namespace: set.namespace, workers: set.workers.length, all_workers: all };
}

/**
 * Chooses a worker set for a request that the sets in `tried` could not serve, as `chooseSet` does. Undefined if no
 * other set has workers for it.
 * @param tried checksums of the cards of those sets
 */
export function chooseOtherSet(
  model: RoutableModel,
  type: ModelType,
  tried: ReadonlySet<string>,
  random: Pick<Random, 'below'>,
): RoutableModel | undefined {
  return drawSet(
    openSets(model, type).filter(({ mdcSum }) => !tried.has(mdcSum)),
    random,
  );
}

/** Returns the worker sets that can serve a kind of request now. */
function openSets(model: RoutableModel, type: ModelType): readonly RoutableModel[] {
  return setsOf(model).filter(({ card, workers }) => workers.length > 0 && card.model_type.includes(type));
}

function drawSet(sets: readonly RoutableModel[], random: Pick<Random, 'below'>): RoutableModel | undefined {
  let drawn = sets.length > 1 ? random.below(sets.reduce((sum, { workers }) => sum + workers.length, 0)) : 0;
  for (const set of sets) {
    if (drawn < set.workers.length) return set;
    drawn -= set.workers.length;
  }
  return undefined;
}

/** Returns whether a set has a worker that the request names. */
function hasNamed({ workers, prefill }: RoutableModel, routing: RoutingHints): boolean {
  const { backend_instance_id: any, decode_worker_id: own, prefill_worker_id: before, allowed_worker_ids } = routing;
  const names = (set: readonly Worker[], ids: readonly (string | undefined)[]): boolean =>
    set.some(({ id }) => ids.includes(id));
  return (
    names(workers, [any, own, ...(allowed_worker_ids ?? [])]) || names(prefill?.workers ?? NO_WORKERS, [any, before])
  );
}
