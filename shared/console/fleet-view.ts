import type { Clock } from '../clock/index.ts';
import type { Discovery, EndpointRecord, FleetLoads } from '../discovery/index.ts';
import type { LiveModelDirectory, RoutableModel } from '../pipeline/index.ts';
import { countWorkers, MODELS_MAX, modelRow, workerRow, workersOf } from './fleet-rows.ts';
import type { Hours } from './hours.ts';
import type { RequestLog } from './request-log.ts';
import { ShownRows } from './shown-rows.ts';
import type { ConsoleFigures, ConsoleHour } from './wire.ts';

/** Facts of the frontend that the fleet view repeats. */
export interface FrontendFacts {
  readonly version: string;
  readonly chatPath: string;
  readonly explains: boolean;
  /** Returns the stage of the process. */
  stage(): string;
}

export interface FleetViewOptions {
  readonly clock: Clock;
  readonly directory: Pick<LiveModelDirectory, 'list' | 'instances'>;
  readonly discovery: Pick<Discovery, 'watchLoads'>;
  readonly log: Pick<RequestLog, 'running'>;
  readonly hours: Hours;
  /** Ids of workers that get no new requests, because they are silent. */
  readonly stalled: ReadonlySet<string>;
  readonly facts: FrontendFacts;
}

const NO_LOADS: FleetLoads = new Map();

/**
 * The fleet as this frontend knows it. It looks only when it is asked: `sample` reads models, workers and loads, and
 * says what has changed since the sample before.
 */
export class FleetView {
  readonly #options: FleetViewOptions;
  readonly #models = new ShownRows();
  readonly #workers = new ShownRows();
  #instances: readonly EndpointRecord[] = [];
  #byId: ReadonlyMap<string, EndpointRecord> = new Map();
  #loads = NO_LOADS;
  #watch: { close(): void } | undefined;
  #leftOut = 0;

  constructor(options: FleetViewOptions) {
    this.#options = options;
  }

  /** Looks at the fleet. Returns the text of a `change`. */
  sample(): string {
    this.#watch ??= this.#options.discovery.watchLoads((loads) => {
      this.#loads = loads;
    });
    const { clock, directory, hours, log, facts, stalled } = this.#options;
    const models = directory.list().slice(0, MODELS_MAX);
    for (const { name } of models) {
      // A model that gets no requests leaves its place to one that does
      if (hours.own(name) !== undefined || log.running(name) > 0) hours.countTokens(name);
    }
    const modelSources = models.map((model) => [model.name, [model, this.#figuresOf(model)] as const] as const);
    const changedModels = this.#models.show(new Map(modelSources), modelRow);
    const { rows, leftOut } = workersOf({ models, loads: this.#loads, instances: this.#instancesById(), stalled });
    this.#leftOut = leftOut;
    const changedWorkers = this.#workers.show(rows, workerRow);
    return objectOf({
      at_ms: clock.wallMs(),
      stage: facts.stage(),
      totals: this.#totals(),
      models: new Raw(changedModels.changed),
      models_gone: changedModels.gone,
      workers: new Raw(changedWorkers.changed),
      workers_gone: changedWorkers.gone,
    });
  }

  /**
   * Returns the text of the whole fleet as it was sampled last. @param model whose hour is shown; undefined = of all
   */
  whole(model: string | undefined): string {
    const { clock, facts } = this.#options;
    const { version, chatPath: chat_path, explains } = facts;
    return objectOf({
      at_ms: clock.wallMs(),
      frontend: { version, stage: facts.stage(), chat_path },
      explains,
      totals: this.#totals(),
      models: new Raw(this.#models.texts),
      workers: new Raw(this.#workers.texts),
      workers_left_out: this.#leftOut,
      hour: this.hour(model),
    });
  }

  /** Returns the series of the last hour: of all models if the model has no hour of its own. */
  hour(model: string | undefined): ConsoleHour {
    const { directory, hours } = this.#options;
    const name = directory.list().find((each) => each.name === model)?.primaryName ?? model;
    const own = name === undefined || hours.own(name) === undefined ? undefined : name;
    const series = hours.of(own).series();
    return { model: own ?? null, ...series, workers: [...hours.workers(series.requests_per_second.length)] };
  }

  close(): void {
    this.#watch?.close();
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

  #instancesById(): ReadonlyMap<string, EndpointRecord> {
    const instances = this.#options.directory.instances();
    if (instances !== this.#instances) {
      this.#instances = instances;
      this.#byId = new Map(instances.map((record) => [record.instance_id, record]));
    }
    return this.#byId;
  }
}

/** Notes the number of workers after each change of the fleet. Returns a function that ends this. */
export function noteWorkers(directory: Pick<LiveModelDirectory, 'follow' | 'list'>, hours: Hours): () => void {
  return directory.follow(() => hours.noteWorkers(countWorkers(directory.list())));
}

/** Elements of an array that are JSON text already. */
class Raw {
  readonly elements: readonly string[];

  constructor(elements: readonly string[]) {
    this.elements = elements;
  }
}

/** Returns an object as JSON text. */
function objectOf(members: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(members).map(
    ([name, value]) => `"${name}":${value instanceof Raw ? `[${value.elements.join(',')}]` : JSON.stringify(value)}`,
  );
  return `{${texts.join(',')}}`;
}
