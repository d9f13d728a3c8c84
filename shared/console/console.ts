import type { Clock } from '../clock/index.ts';
import { OpenOnce } from '../concurrency/index.ts';
import type { TokenPrice } from '../config/index.ts';
import type { Discovery } from '../discovery/index.ts';
import type { LiveModelDirectory, PipelineObserver } from '../pipeline/index.ts';
import type { Routing } from '../routing/index.ts';
import { ColdStarts } from './cold-starts.ts';
import { FleetView, type FrontendFacts, noteWorkers } from './fleet-view.ts';
import { Hours } from './hours.ts';
import { PlannedStarts } from './planned-starts.ts';
import type { OwnNameOf } from './planner/groups.ts';
import type { PlannerSource } from './planner/planner-view.ts';
import type { PlannerViewers } from './planner/planner-viewers.ts';
import { RequestLog } from './request-log.ts';
import { type TokenPrices, tokenPricesBy } from './token-cost.ts';
import { Viewers } from './viewers.ts';
import type { ConsoleWorkerDetail } from './wire/worker.ts';
import { workerDetail } from './worker-detail.ts';

/** Settings and sources of a console. */
export interface ConsoleOptions {
  readonly clock: Clock;
  /** Requests that the console remembers. */
  readonly kept: number;
  /** Whether the console keeps prompts and answers, and shows them. @default false */
  readonly showsPrompts?: boolean;
  /** Prices of tokens that the operator has stated. @default none */
  readonly tokenPrices?: readonly TokenPrice[];
  /** Returns the output tokens of a model so far. @param model primary name */
  outputTokensOf(model: string): number;
}

/** The parts of a frontend that the console looks at. */
export interface ConsoleSources {
  readonly directory: Pick<LiveModelDirectory, 'list' | 'instances' | 'follow' | 'known'>;
  readonly discovery: Pick<Discovery, 'watchLoads' | 'orderDrain'>;
  readonly facts: FrontendFacts;
  /** Returns what a worker has cached. @default nothing is known */
  readonly cacheOf?: Routing['cacheOf'];
  readonly planners: PlannerSource;
  /** Returns this router among others. @default it has no id */
  readonly peers?: Routing['peers'];
}

/** Observer of the steps that the console shows. */
export type ConsoleObserver = Required<Pick<PipelineObserver, 'sent' | 'moved' | 'workerStalled' | 'workerRecovered'>>;

/** How long a worker that an operator drains may end its requests, as after SIGTERM without settings. */
const DRAIN_MS = 900_000;
const DRAIN_REASON = 'an operator drains it in the console';

/** Follows the requests of a frontend from its start, and shows them and the fleet to viewers. */
export class FleetConsole {
  readonly log: RequestLog;
  readonly observer: ConsoleObserver;
  /** Waits of requests for a first worker. */
  readonly coldStarts: ColdStarts;
  readonly #clock: Clock;
  readonly #hours: Hours;
  readonly #tokenPrices: TokenPrices;
  readonly #stalled = { ids: new Set<string>(), changes: 0 }; // bounded by the workers in discovery

  constructor({ clock, kept, showsPrompts = false, tokenPrices = [], outputTokensOf }: ConsoleOptions) {
    this.#clock = clock;
    this.#tokenPrices = tokenPricesBy(tokenPrices);
    this.#hours = new Hours(clock, outputTokensOf);
    this.log = new RequestLog(clock, this.#hours, kept, showsPrompts, this.#tokenPrices);
    this.coldStarts = new ColdStarts(clock);
    this.observer = {
      ...this.log.observer,
      workerStalled: (_model, workerId) => {
        this.#stalled.ids.add(workerId);
        this.#stalled.changes++;
      },
      workerRecovered: (_model, workerId) => {
        this.#stalled.ids.delete(workerId);
        this.#stalled.changes++;
      },
    };
  }

  /** Opens the console to viewers. */
  open({ directory, discovery, facts, cacheOf, peers, planners }: ConsoleSources): OpenConsole {
    const ownNameOf: OwnNameOf = (model) => directory.known(model)?.card.display_name ?? model;
    const records = planners.open && new OpenOnce(planners.open);
    const starts = records && new PlannedStarts(this.#clock, records, ownNameOf);
    const fleet = new FleetView({
      clock: this.#clock,
      directory,
      discovery,
      log: this.log,
      hours: this.#hours,
      coldStarts: this.coldStarts,
      starts,
      peers,
      stalled: this.#stalled,
      tokenPrices: this.#tokenPrices,
      facts,
    });
    const unfollow = noteWorkers(directory, this.#hours);
    const viewers = new Viewers(this.#clock, fleet, this.log);
    const planner = plannerOpener((of) => new of(this.#clock, planners.howToStart, records, ownNameOf));
    return {
      log: this.log,
      viewers,
      worker: (id, signal) => workerDetail({ viewers, log: this.log, directory, cacheOf }, id, signal),
      planner: planner.open,
      drain: (workerId, signal) => {
        const deadlineMs = this.#clock.wallMs() + DRAIN_MS;
        return discovery.orderDrain([workerId], { reason: DRAIN_REASON, deadlineMs }, signal);
      },
      close: async () => {
        unfollow();
        viewers.close();
        fleet.close();
        await planner.close();
        await records?.close();
      },
    };
  }
}

/** Opens the viewers of planners once, and loads their code only then: the laws are a part of it. */
function plannerOpener(make: (of: typeof PlannerViewers) => PlannerViewers) {
  let opened: Promise<PlannerViewers> | undefined;
  return {
    open: () => {
      opened ??= import('./planner/planner-viewers.ts').then(({ PlannerViewers: of }) => make(of));
      return opened;
    },
    close: async (): Promise<void> => (await opened)?.close(),
  };
}

/** A console that viewers can reach. */
export interface OpenConsole {
  readonly log: RequestLog;
  readonly viewers: Viewers;
  /** Returns a worker with its cache; undefined if no such worker is shown. Rejects with the signal's reason. */
  worker(id: string, signal: AbortSignal): Promise<ConsoleWorkerDetail | undefined>;
  /** Opens the viewers of what planners have recorded. */
  planner(): Promise<PlannerViewers>;
  /**
   * Orders a worker to drain. Resolves with the ids of the workers that got the order. Rejects if it cannot be given.
   */
  drain(workerId: string, signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}
