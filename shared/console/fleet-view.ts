import type { Clock } from '../clock/index.ts';
import type { InstancePrice } from '../config/index.ts';
import type { Discovery, EndpointRecord, FleetLoads } from '../discovery/index.ts';
import type { LiveModelDirectory, RoutableModel } from '../pipeline/index.ts';
import type { Routing } from '../routing/index.ts';
import type { ColdStarts, StartSource } from './cold-starts.ts';
import { costOf } from './fleet-cost.ts';
import { countAllWorkers, MODELS_MAX, modelRow } from './fleet-rows.ts';
import { frontendsOf } from './frontend-peers.ts';
import type { Hours } from './hours.ts';
import { objectOf, Raw } from './json-object.ts';
import type { RequestLog } from './request-log.ts';
import { ShownRows } from './shown-rows.ts';
import { ShownWorkers } from './shown-workers.ts';
import type { TokenPrices } from './token-cost.ts';
import type { ConsoleCost, ConsoleFigures, ConsoleFleet, ConsoleHour } from './wire/fleet.ts';
import type { ConsoleWorker } from './wire/worker.ts';

/** Facts of the frontend that the fleet view repeats. */
export interface FrontendFacts {
  readonly version: string;
  readonly chatPath: string;
  readonly explains: boolean;
  /** Name of its machine, and number of its process. */
  readonly host: string;
  readonly pid: number;
  /** Prices of machines that the operator has stated. */
  readonly prices: readonly InstancePrice[];
  /** Returns the stage of the process. */
  stage(): string;
}

/** Ids of workers that are silent. */
export interface StalledIds {
  readonly ids: ReadonlySet<string>;
  /** Number of changes so far. */
  readonly changes: number;
}

export interface FleetViewOptions {
  readonly clock: Clock;
  readonly directory: Pick<LiveModelDirectory, 'list' | 'instances'>;
  readonly discovery: Pick<Discovery, 'watchLoads'>;
  readonly log: Pick<RequestLog, 'running'>;
  readonly hours: Hours;
  readonly coldStarts: ColdStarts;
  /** Tells how far starts are. @default nothing does */
  readonly starts?: StartSource | undefined;
  /** Returns this router among others. @default it has no id */
  readonly peers?: Routing['peers'];
  /** Ids of workers that get no new requests, because they are silent. */
  readonly stalled: StalledIds;
  readonly tokenPrices: TokenPrices;
  readonly facts: FrontendFacts;
}

const NO_LOADS: FleetLoads = new Map();
const NO_COST: ConsoleCost = costOf([], 0, []);

/** Parts that are sent only if they have changed. */
type Parts = Pick<ConsoleFleet, 'cold_starts' | 'starting' | 'cost' | 'frontends'>;

/** Endpoints that state their machine, by their ids, and these machines. */
interface Instances {
  readonly byId: ReadonlyMap<string, EndpointRecord>;
  readonly machines: ReadonlySet<string>;
}

/**
 * The fleet as this frontend knows it. It looks only when it is asked: `sample` reads models, workers and loads, and
 * says what has changed since the sample before.
 */
export class FleetView {
  readonly #options: FleetViewOptions;
  readonly #models = new ShownRows();
  readonly #workers = new ShownWorkers();
  readonly #ended = new AbortController();
  #records: readonly EndpointRecord[] = [];
  #instances: Instances = { byId: new Map(), machines: new Set() };
  #loads = NO_LOADS;
  #watch: { close(): void } | undefined;
  /** Parts as all viewers have them, and their texts by their names. */
  #parts: Parts = { cold_starts: [], starting: [], cost: NO_COST, frontends: frontendsOf(undefined, undefined) };
  readonly #partTexts = new Map<keyof Parts, string>();
  #cost = NO_COST;

  constructor(options: FleetViewOptions) {
    this.#options = options;
  }

  /** Looks at the fleet. Returns the text of a `change`. */
  sample(): string {
    this.#watch ??= this.#options.discovery.watchLoads((loads) => {
      this.#loads = loads;
    });
    const { clock, directory, hours, log, facts, stalled, tokenPrices } = this.#options;
    const models = directory.list().slice(0, MODELS_MAX);
    for (const { name } of models) {
      // A model that gets no requests leaves its place to one that does
      if (hours.own(name) !== undefined || log.running(name) > 0) hours.countTokens(name);
    }
    const modelSources = models.map(
      (model) => [model.name, [model, this.#figuresOf(model), tokenPrices] as const] as const,
    );
    const changedModels = this.#models.show(new Map(modelSources), modelRow);
    const { byId: instances } = this.#instancesNow();
    const changedWorkers = this.#workers.take({
      ...{ models, loads: this.#loads, instances },
      ...{ stalled: stalled.ids, stalledChanges: stalled.changes },
    });
    const { rows, gone, haveOthersChanged } = changedWorkers;
    if (rows.length > 0 || gone.length > 0 || haveOthersChanged) {
      const { hosts, without } = this.#workers.machines();
      this.#cost = costOf(hosts.values(), without, facts.prices);
    }
    return objectOf({
      at_ms: clock.wallMs(),
      stage: facts.stage(),
      totals: this.#totals(),
      models: new Raw(changedModels.changed),
      models_gone: changedModels.gone,
      workers: new Raw(rows),
      workers_gone: gone,
      loads: new Raw(changedWorkers.loads),
      ...this.#changedParts(models),
    });
  }

  /**
   * Returns the text of the whole fleet as it was sampled last. @param model whose hour is shown; undefined = of all
   */
  whole(model: string | undefined): string {
    const { clock, facts } = this.#options;
    const { version, chatPath: chat_path, explains, host, pid } = facts;
    return objectOf({
      at_ms: clock.wallMs(),
      frontend: { version, stage: facts.stage(), chat_path, host, pid },
      explains,
      totals: this.#totals(),
      models: new Raw(this.#models.texts),
      workers: new Raw(this.#workers.rows()),
      workers_left_out: this.#workers.leftOut,
      ...this.#parts,
      hour: this.hour(model),
    });
  }

  /** Returns a worker as it was sampled last; undefined if it is not shown. */
  worker(id: string): ConsoleWorker | undefined {
    return this.#workers.row(id);
  }

  /** Returns the series of the last hour: of all models if the model has no hour of its own. */
  hour(model: string | undefined): ConsoleHour {
    const { directory, hours } = this.#options;
    const name = directory.list().find((each) => each.name === model)?.primaryName ?? model;
    const own = name === undefined || hours.own(name) === undefined ? undefined : name;
    const series = hours.of(own).series();
    return { model: own ?? null, ...series, workers: [...hours.workers(series.requests_per_second.length)] };
  }

  /** Stops following loads, which costs until the next sample: no client looks. */
  rest(): void {
    this.#watch?.close();
    this.#watch = undefined;
    this.#loads = NO_LOADS;
  }

  close(): void {
    this.rest();
    this.#ended.abort(new Error('the console is closed'));
  }

  #figuresOf({ name, primaryName }: RoutableModel): ConsoleFigures | undefined {
    const { hours, log } = this.#options;
    if (name !== primaryName) return undefined;
    const own = hours.own(name);
    return own && { running: log.running(name), ...own.figures() };
  }

  #totals(): ConsoleFigures {
    const { hours, log } = this.#options;
    return { running: log.running(), ...hours.of(undefined).figures() };
  }

  /** Returns the parts that have changed since the sample before. */
  #changedParts(models: readonly RoutableModel[]): Partial<Parts> {
    const { coldStarts, starts } = this.#options;
    const names = models.flatMap(({ name, primaryName }) => (name === primaryName ? [name] : []));
    coldStarts.look(starts, names, this.#ended.signal);
    this.#parts = this.#partsNow();
    const changed = Object.entries(this.#parts).filter(([name, part]) => {
      const text = JSON.stringify(part);
      const isNew = text !== this.#partTexts.get(name as keyof Parts);
      this.#partTexts.set(name as keyof Parts, text);
      return isNew;
    });
    return Object.fromEntries(changed);
  }

  #partsNow(): Parts {
    const { coldStarts, peers } = this.#options;
    const { machines } = this.#instancesNow();
    return {
      cold_starts: [...coldStarts.rows()],
      starting: [...coldStarts.starting((id) => machines.has(id))],
      cost: this.#cost,
      frontends: frontendsOf(peers, this.#workers.requests),
    };
  }

  #instancesNow(): Instances {
    const records = this.#options.directory.instances();
    if (records !== this.#records) {
      this.#records = records;
      // Only the endpoint for requests has facts about the machine; a worker has others, too
      const stated = records.filter(({ host }) => host !== undefined);
      this.#instances = {
        byId: new Map(stated.map((record) => [record.instance_id, record])),
        machines: new Set(stated.map(({ host }) => host?.instance_id ?? '')),
      };
    }
    return this.#instances;
  }
}

/**
 * Notes the number of workers after each change of the fleet, also while no client looks: the last hour shows it. That
 * costs a step for each model, whatever their workers. Returns a function that ends this.
 */
export function noteWorkers(directory: Pick<LiveModelDirectory, 'follow' | 'list'>, hours: Hours): () => void {
  return directory.follow(() => hours.noteWorkers(countAllWorkers(directory.list())));
}
