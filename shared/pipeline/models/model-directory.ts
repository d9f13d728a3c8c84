import type { Clock, Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import type {
  Discovery,
  DiscoveryEvent,
  EndpointRecord,
  ModelCard,
  ModelRecord,
  Watch,
  WatchListener,
} from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { ModelDirectory, RefusedModel } from '../pipeline.ts';
import { CataloguedModels, RememberedModels } from './absent-models.ts';
import { ModelRenaming } from './model-renaming.ts';
import type { PlannedName } from './planned-models.ts';
import { type JoinedCard, type ModelTerms, modelOf, type RoutableModel } from './routable-model.ts';

export interface ModelDirectoryOptions extends ModelTerms {
  readonly discovery: Discovery;
  /** Namespace whose models are served. @default every namespace */
  readonly namespace?: string | undefined;
  /** Prefix of the namespaces whose models are served. If set, `namespace` has no effect. */
  readonly namespacePrefix?: string | undefined;
  /** Name that clients see in place of a model's own (`--model-name`). @default none */
  readonly modelName?: string | undefined;
  /** Called once for each further model, which keeps its own name because another model has `modelName`. */
  readonly onNotRenamed?: (model: string, renamed: string) => void;
  readonly clock: Clock;
  /** How long names are remembered after their last worker has left, in milliseconds. @default 0 */
  readonly rememberedMs?: number;
  /** Largest number of remembered names; the latest ones stay. @default 1024 */
  readonly rememberedMax?: number;
  /** Models whose workers a planner starts, before any has come. Those outside the scope are left out. @default none */
  readonly planned?: readonly PlannedName[] | undefined;
  /** Returns why models with that card are not served; undefined if they are. @default all are */
  readonly refusalOf?: (card: ModelCard) => string | undefined;
  readonly onWorkerAdded?: (workerId: string) => void;
  /** Whether workers that speak Dynamo's request plane are served. @default false */
  readonly servesDynamo?: boolean;
  /** Called for each card in scope of a worker that speaks Dynamo's request plane, and is left out. */
  readonly onForeignWorker?: (record: ModelRecord) => void;
  /** Called for each endpoint in scope that says why its worker is left out (`refused`). */
  readonly onRefusedWorker?: (record: EndpointRecord) => void;
  readonly onDiscoveryFailing?: (error: Error) => void;
  readonly onDiscoveryRecovered?: () => void;
  /** Called if a change could not be applied, or a follower failed. The directory tries again after 5 s. */
  readonly onChangeFailed?: (error: unknown) => void;
}

/** Joins the models in discovery with the endpoint instances that serve them, and keeps them current. */
export class LiveModelDirectory implements ModelDirectory {
  readonly #options: ModelDirectoryOptions;
  readonly #cards = new Map<string, ModelRecord>();
  /** Cards that are not served, by key, each with the reason. */
  readonly #refused = new Map<string, RefusedModel>();
  /** The list of them. The first look after a change makes it. */
  #refusals: readonly RefusedModel[] | undefined;
  readonly #endpoints = new Map<string, EndpointRecord>();
  /** Ids of workers that are left out, by the keys of the endpoints that say so. */
  readonly #leftOut = new Map<string, string>();
  /** Endpoints in key order. The first look after a change makes the list. */
  #instances: readonly EndpointRecord[] | undefined;
  #models: ReadonlyMap<string, RoutableModel> = new Map();
  #listed: readonly RoutableModel[] = [];
  /** Names that no worker serves any more, with their last state. */
  readonly #remembered: RememberedModels;
  readonly #catalogued: CataloguedModels;
  readonly #renaming: ModelRenaming | undefined;
  #watches: Watch[] = [];
  #isDirty = false;
  #retry: Timer | undefined;
  // One for each part of the process that follows changes, or waits for one
  readonly #followers = new Set<() => void>();

  constructor(options: ModelDirectoryOptions) {
    this.#options = options;
    const { clock, rememberedMs = 0, rememberedMax = REMEMBERED_MAX, modelName, onNotRenamed } = options;
    if (modelName !== undefined) this.#renaming = new ModelRenaming(modelName, { onOther: onNotRenamed });
    const isWorkerLive = (id: string): boolean =>
      [...this.#endpoints.values()].some(({ instance_id: live }) => live === id);
    this.#remembered = new RememberedModels({ clock, rememberedMs, rememberedMax, isWorkerLive });
    const planned = options.planned?.filter(({ namespace }) => this.isInScope(namespace));
    this.#catalogued = new CataloguedModels(clock, options, planned);
  }

  /** Reads the present set and follows changes. Rejects when discovery cannot be read. */
  async start(signal?: AbortSignal): Promise<void> {
    const { discovery, refusalOf, servesDynamo = false } = this.#options;
    this.#watches = await Promise.all([
      discovery.watch(
        { bucket: 'v1/instances', prefix: '', includesDynamo: servesDynamo },
        this.#listener((event) => this.#applyEndpoint(event)),
        signal,
      ),
      discovery.watch(
        { bucket: 'v1/mdc', prefix: '', includesDynamo: true },
        this.#listener((event) => this.#applyCard(event)),
        signal,
      ),
    ]);
    const catalogue = discovery.catalogue?.watch((entries) => {
      const served = entries.filter(
        ({ namespace, card }) => this.isInScope(namespace) && refusalOf?.(card) === undefined,
      );
      this.#catalogued.show(served);
      if (this.#renaming !== undefined) this.#scheduleRebuild();
    });
    if (catalogue !== undefined) this.#watches.push(catalogue);
    this.#rebuild();
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
    this.#watches = [];
    this.#isDirty = false; // a rebuild that is due is dropped
    this.#retry?.cancel();
  }

  list(): readonly RoutableModel[] {
    return this.#listed;
  }

  get isPart(): boolean {
    return this.#options.discovery.shownModels?.isWhole === false;
  }

  find(name: string): RoutableModel | undefined {
    return this.#models.get(name);
  }

  /**
   * Returns the model of that name, even if its last worker has left or no worker was ever seen: one may be started for
   * it.
   */
  known(name: string): RoutableModel | undefined {
    const known = this.#models.get(name) ?? this.#remembered.find(name);
    if (known !== undefined) return known;
    const ownName = this.#renaming === undefined ? name : this.#renaming.ownNameOf(name);
    const catalogued = ownName === undefined ? undefined : this.#catalogued.find(ownName);
    return catalogued && this.#shown(catalogued);
  }

  /** Returns the first 256 models that are not served, under their own names, once for each reason. */
  refused(): readonly RefusedModel[] {
    this.#refusals ??= distinct(this.#refused.values()).slice(0, REFUSALS_MAX);
    return this.#refusals;
  }

  /** Returns the name that clients use for a model. @param ownName its name at its workers */
  shownNameOf(ownName: string): string {
    return this.#renaming?.shownNameOf(ownName) ?? ownName;
  }

  /** Returns every model that `known` would find. */
  listKnown(): readonly RoutableModel[] {
    const others = new Map<string, RoutableModel>();
    const catalogued = [...this.#catalogued.list()].flatMap((model) => this.#shown(model) ?? []);
    for (const model of [...catalogued, ...this.#remembered.list()]) others.set(model.name, model);
    const known = [...others.values()].filter(({ name }) => !this.#models.has(name));
    return known.length === 0 ? this.#listed : [...this.#listed, ...known];
  }

  /**
   * Returns every live endpoint of the followed namespaces, in key order: the same list until an endpoint comes or
   * goes.
   */
  instances(): readonly EndpointRecord[] {
    this.#instances ??= [...this.#endpoints].sort(byKey).map(([, record]) => record);
    return this.#instances;
  }

  /** Runs `tell` after every change, until the caller calls the returned function. */
  follow(tell: () => void): () => void {
    this.#followers.add(tell);
    return () => void this.#followers.delete(tell);
  }

  /**
   * Resolves as soon as `holds` is true of the list: at once, or after the change that makes it true. Rejects with the
   * signal's reason.
   */
  async until(holds: (models: readonly RoutableModel[]) => boolean, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (holds(this.#listed)) return;
    let unfollow = (): void => {};
    const held = new Promise<void>((resolve) => {
      unfollow = this.follow(() => {
        if (holds(this.#listed)) resolve();
      });
    });
    await untilAborted(held, signal).finally(unfollow);
  }

  /** Returns whether the workers of a namespace are followed. */
  isInScope(namespace: string): boolean {
    const { namespace: exact, namespacePrefix } = this.#options;
    if (namespacePrefix !== undefined) return namespace.startsWith(namespacePrefix);
    return exact === undefined || namespace === exact;
  }

  #listener(apply: (event: DiscoveryEvent) => void): WatchListener {
    const { onDiscoveryFailing, onDiscoveryRecovered } = this.#options;
    return {
      event: (event) => {
        apply(event);
        this.#scheduleRebuild();
      },
      failing: (error) => onDiscoveryFailing?.(error),
      recovered: () => onDiscoveryRecovered?.(),
    };
  }

  #applyEndpoint(event: DiscoveryEvent): void {
    this.#leftOut.delete(event.key);
    if (event.kind === 'removed') {
      if (this.#endpoints.delete(event.key)) this.#instances = undefined;
    } else if (event.record.type === 'Endpoint' && this.isInScope(event.record.namespace)) {
      this.#endpoints.set(event.key, event.record);
      this.#instances = undefined;
      const { refused, instance_id } = event.record;
      this.#options.onWorkerAdded?.(instance_id);
      if (refused === undefined) return;
      this.#leftOut.set(event.key, instance_id);
      this.#options.onRefusedWorker?.(event.record);
    }
  }

  #applyCard(event: DiscoveryEvent): void {
    this.#cards.delete(event.key);
    if (this.#refused.delete(event.key)) this.#refusals = undefined;
    if (event.kind === 'removed' || event.record.type !== 'Model') return;
    const { namespace, card, wire } = event.record;
    const { servesDynamo, onForeignWorker, refusalOf } = this.#options;
    if (!this.isInScope(namespace)) return;
    if (wire !== undefined && servesDynamo !== true) {
      onForeignWorker?.(event.record);
      return;
    }
    const reason = refusalOf?.(card);
    if (reason === undefined) this.#cards.set(event.key, event.record);
    else {
      this.#refused.set(event.key, { model: card.display_name, reason });
      this.#refusals = undefined;
    }
  }

  /** Schedules a rebuild. Many changes in one turn cost one rebuild. */
  #scheduleRebuild(): void {
    if (this.#isDirty) return;
    this.#isDirty = true;
    queueMicrotask(() => {
      if (this.#isDirty) this.#tryRebuild();
    });
  }

  #tryRebuild(): void {
    this.#retry?.cancel();
    try {
      this.#rebuild();
    } catch (thrown) {
      this.#retry = this.#options.clock.after(REBUILD_AGAIN_MS, () => this.#scheduleRebuild());
      this.#options.onChangeFailed?.(thrown);
    }
  }

  /** @throws Error if the models cannot be made from their records, or a follower failed, after the rest has run */
  #rebuild(): void {
    this.#isDirty = false;
    const byName = new Map<string, JoinedCard[]>();
    const leftOut = new Set(this.#leftOut.values());
    for (const [key, record] of [...this.#cards].sort(byKey)) {
      if (leftOut.has(record.instance_id)) continue;
      const instance = endpointKeyOf(key, record);
      const base = record.card.lora === undefined ? undefined : this.#cards.get(instance);
      const card: JoinedCard = { record, endpoint: this.#endpoints.get(instance), base };
      const cards = byName.get(record.card.display_name);
      if (cards === undefined) byName.set(record.card.display_name, [card]);
      else cards.push(card);
    }
    const models = new Map<string, RoutableModel>();
    for (const [name, cards] of byName) {
      const model = { ...modelOf(name, cards, this.#options), createdSecs: this.#createdSecs(name, cards) };
      models.set(name, model);
      for (const alias of model.card.aliases) if (!byName.has(alias)) models.set(alias, { ...model, name: alias });
    }
    const shown = this.#renamed(models);
    this.#remembered.change(this.#models, shown);
    this.#models = shown;
    this.#listed = [...shown.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const failures: unknown[] = [];
    for (const tell of this.#followers) {
      try {
        tell();
      } catch (thrown) {
        failures.push(thrown); // the others still learn of the change
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map(reasonOf).join('; '));
  }

  /** Returns the models by the names that clients see. */
  #renamed(models: ReadonlyMap<string, RoutableModel>): ReadonlyMap<string, RoutableModel> {
    const renaming = this.#renaming;
    if (renaming === undefined) return models;
    const absent = [...this.#catalogued.list()].filter(({ name }) => !models.has(name));
    const { name } = renaming;
    const before = (this.#options.rememberedMs ?? 0) > 0 ? this.#models.get(name) : undefined;
    renaming.choose([...models.values(), ...absent], before ?? this.#remembered.find(name));
    const shown = [...models.values()].flatMap((model) => renaming.shown(model) ?? []);
    return new Map(shown.map((model) => [model.name, model]));
  }

  #shown(model: RoutableModel): RoutableModel | undefined {
    return this.#renaming === undefined ? model : this.#renaming.shown(model);
  }

  /** Returns the earliest time that any known worker has named. It stays when that worker leaves. */
  #createdSecs(ownName: string, cards: readonly JoinedCard[]): number {
    const name = this.shownNameOf(ownName);
    const before = (this.#models.get(name) ?? this.#remembered.find(name))?.createdSecs ?? Number.POSITIVE_INFINITY;
    const named = cards.map(({ record }) => record.registered_at ?? Number.POSITIVE_INFINITY);
    const earliest = Math.min(before, ...named);
    return earliest === Number.POSITIVE_INFINITY ? Math.floor(this.#options.clock.wallMs() / 1000) : earliest;
  }
}

const REMEMBERED_MAX = 1024;
/** Refused models that are listed at most: `/health` and errors show them. */
const REFUSALS_MAX = 256;
const REBUILD_AGAIN_MS = 5000;

/** Returns the key of the instance that a card belongs to: the card's own, without the adapter at its end. */
function endpointKeyOf(cardKey: string, { model_suffix: adapter }: ModelRecord): string {
  return adapter === undefined ? cardKey : cardKey.slice(0, cardKey.lastIndexOf('/'));
}

/** Returns each model and reason once, in order. */
function distinct(refused: Iterable<RefusedModel>): readonly RefusedModel[] {
  const each = new Map([...refused].map((one) => [JSON.stringify([one.model, one.reason]), one] as const));
  return [...each].sort(byKey).map(([, one]) => one);
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}
