// Loaded with the first chat elsewhere: here no time may pass meanwhile.
import '../../shared/frontends/http/openai/chat.ts';
import '../../shared/frontends/http/openai/completions.ts';
import { type Clock, seededRandom } from '../../shared/clock/index.ts';
import type { Discovery } from '../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../shared/discovery/memory/memory-discovery.ts';
import type { Engine } from '../../shared/engines/index.ts';
import { createMockEngine } from '../../shared/engines/mocker/mock-engine.ts';
import {
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  type Worker as PipelineWorker,
  workerSetsOf,
} from '../../shared/pipeline/index.ts';
import type { PlaneServer, RequestPlane } from '../../shared/planes/index.ts';
import { Inhibition, SimpleRouter } from '../../shared/scheduler/index.ts';
import { createFrontendMetrics, createWorkerMetrics } from '../../shared/telemetry/index.ts';
import { captureLogger } from '../../shared/telemetry/log/logger.ts';
import { EndpointHealth } from '../../shared/worker/control/endpoint-health.ts';
import { startWorker, type Worker } from '../../shared/worker/worker.ts';
import { letterModel } from '../shared/pipeline/fixtures.ts';
import { createTestApp, type TestApp } from '../support/http-app.ts';
import { FreezableClock } from '../support/index.ts';
import { createMemoryEventPlane } from '../support/memory-event-plane.ts';
import { memoryHandoffs } from '../support/memory-handoffs.ts';
import { createMemoryRequestPlane } from '../support/memory-request-plane.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Task of a worker. */
export type Role = 'aggregated' | 'prefill' | 'decode';

const CONTEXT_TOKENS = 2000;
const LEASE_TTL_MS = 10_000;
const STALL_MS = 500;
const GRACE_MS = 300;
const INHIBITED_MS = 500;

/**
 * A third of a second to the first token, then some milliseconds a token. A worker runs one request at a time, so that
 * others queue.
 */
const PACE = {
  speedupRatio: 0.05,
  decodeSpeedupRatio: 22,
  maxNumSeqs: 1,
  maxModelLen: CONTEXT_TOKENS,
  numGpuBlocks: 512,
};

/** The blocks of a prompt take a while to cross. */
const LINK = { kvBytesPerToken: 1_000_000, kvTransferBandwidthGbps: 0.05 };

/** Opens the discovery through which a process on `clock` knows the others. */
type DiscoveryOn = (clock: Clock) => Discovery;

/** How long workers drain. */
export interface Limits {
  readonly drainLimitMs?: number;
}

/** One worker of a fleet, and the ways in which it can come to grief. */
export class FleetWorker {
  readonly role: Role;
  readonly clock: FreezableClock;
  worker!: Worker; // `VirtualFleet.start` sets it before anybody else has this
  /** Tokens that its engine has made, of all requests. */
  produced = 0;
  readonly engine: Engine;
  #server: PlaneServer | undefined;
  #loseEngine: (reason: Error) => void = () => {};
  #isFrozen = false;
  #isStopped = false;

  constructor(role: Role, clock: FreezableClock, engine: Engine) {
    this.role = role;
    this.clock = clock;
    this.engine = this.#watched(engine);
  }

  get running(): number {
    return this.worker.activeRequests;
  }

  get waiting(): number {
    return this.#load('waitingRequests');
  }

  get usedBlocks(): number {
    return this.#load('usedKvBlocks');
  }

  /** It has drained and ended. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Outcome of its streams, once it has drained. */
  report: Awaited<ReturnType<Worker['drain']>> | undefined;

  stop(): void {
    void this.worker.drain().then((report) => {
      this.report = report;
      this.#isStopped = true;
    });
  }

  /** The process is gone: so are its connections, and nothing of it happens any more. */
  async kill(): Promise<void> {
    this.freeze();
    await this.cutOff();
  }

  /** Nothing of it happens until `thaw`; its connections stand. */
  freeze(): void {
    this.#isFrozen = true;
    this.clock.freeze();
  }

  /** Its connections break and no new one comes about; it goes on by itself. */
  async cutOff(): Promise<void> {
    await this.#server?.close();
  }

  /** The engine's own process ends; the worker then stops, as its program has it. */
  loseEngine(): void {
    this.#loseEngine(new Error('engine killed'));
    this.stop();
  }

  /** The plane as this worker serves on it. */
  serveOn(plane: RequestPlane): RequestPlane {
    return {
      ...plane,
      serve: async (options) => {
        const server = await plane.serve(options);
        this.#server = server;
        const { handle } = server;
        server.handle = (endpoint, handler) =>
          handle.call(server, endpoint, (call) => (this.#isFrozen ? undefined : handler(call)));
        return server;
      },
    };
  }

  #load(name: 'waitingRequests' | 'usedKvBlocks'): number {
    return this.engine.load().reduce((sum, load) => sum + load[name], 0);
  }

  #watched(engine: Engine): Engine {
    const { generate } = engine;
    engine.generate = (request, sink, signal) => {
      const { tokens } = sink;
      sink.tokens = (choice, ids, start, count) => {
        this.produced += count;
        tokens.call(sink, choice, ids, start, count);
      };
      generate.call(engine, request, sink, signal);
    };
    engine.onExit = (told) => {
      this.#loseEngine = told;
    };
    return engine;
  }
}

/** A frontend and its workers in one process. In virtual time, a minute of the fleet takes some milliseconds. */
export class VirtualFleet {
  readonly clock = new VirtualClock();
  readonly workers: FleetWorker[] = [];
  readonly metrics = createFrontendMetrics({ clock: this.clock });
  readonly #random = seededRandom(7);
  readonly #plane = createMemoryRequestPlane({ clock: this.clock });
  readonly #events = createMemoryEventPlane({ clock: this.clock, random: this.#random });
  readonly #handoffs = memoryHandoffs();
  readonly #discoveryOn: DiscoveryOn;
  readonly #limits: Limits;
  /** The frontends'. */
  readonly discovery: Discovery;
  #frontend: ReturnType<typeof mortalCaller> | undefined;
  app!: TestApp['app']; // `open` sets it before anybody else has this

  private constructor(connect: ((clock: VirtualClock) => DiscoveryOn) | undefined, limits: Limits) {
    this.#limits = limits;
    this.#discoveryOn = (connect ?? ((clock) => this.#inMemory(clock)))(this.clock);
    this.discovery = this.#discoveryOn(this.clock);
  }

  /**
   * @param roles one worker each
   * @param connect how its processes know of each other; absent = all that one knows, all know at once
   */
  static async open(
    roles: readonly Role[],
    connect?: (clock: VirtualClock) => DiscoveryOn,
    limits: Limits = {},
  ): Promise<VirtualFleet> {
    const fleet = new VirtualFleet(connect, limits);
    for (const role of roles) await fleet.start(role);
    await fleet.#openFrontend();
    return fleet;
  }

  async start(role: Role): Promise<FleetWorker> {
    const clock = new FreezableClock(this.clock);
    const options = {
      ...PACE,
      ...(role === 'aggregated' ? {} : LINK),
      isPrefill: role === 'prefill',
      randomIds: { first: 1, count: 26 },
      blockSizeTokens: 16,
      modelType: ['Completions'] as const,
    };
    const engine = createMockEngine(options, { clock, handoffs: this.#handoffs });
    const member = new FleetWorker(role, clock, engine);
    const address = {
      namespace: 'dynamo',
      component: role === 'prefill' ? 'prefill' : 'backend',
      endpoint: 'generate',
    };
    const random = this.#random;
    member.worker = await startWorker(
      {
        engine: member.engine,
        discovery: this.#discoveryOn(clock),
        requestPlane: member.serveOn(this.#plane),
        eventPlane: this.#events,
        address,
        model: { contextLength: CONTEXT_TOKENS },
        card: { workerType: role },
        names: { displayName: 'letters' },
        clock,
        random,
        logger: captureLogger().logger,
        metrics: createWorkerMetrics({ ...address, model: 'letters', clock }),
        health: new EndpointHealth(clock, [address.endpoint]),
        settings: { graceMs: GRACE_MS, ...this.#limits },
      },
      new AbortController().signal,
    );
    this.workers.push(member);
    return member;
  }

  #inMemory(of: VirtualClock): DiscoveryOn {
    const hub = new MemoryHub(of);
    return (clock) => new MemoryDiscovery({ hub, clock, random: this.#random, ttlMs: LEASE_TTL_MS });
  }

  /** The frontend is gone with its connections; another takes its place. */
  async replaceFrontend(): Promise<void> {
    this.#frontend?.die();
    await this.#plane.close();
    await this.#openFrontend();
  }

  async #openFrontend(): Promise<void> {
    const { clock, metrics } = this;
    this.#frontend = mortalCaller(this.#plane);
    const random = this.#random;
    const inhibition = new Inhibition(clock, INHIBITED_MS);
    const router = new SimpleRouter<PipelineWorker>({ mode: 'round-robin', random, inhibition });
    const pools = new FollowedPools(router);
    const models = new LiveModelDirectory({ discovery: this.discovery, clock });
    models.follow(() => pools.follow(models.list().flatMap(workerSetsOf)));
    const pipeline = createPipeline({
      models,
      store: new ModelStore({ open: async () => letterModel, clock, onFailure: () => {} }),
      router,
      inhibition,
      plane: this.#frontend.plane,
      clock,
      random,
      observer: metrics,
      migrationLimit: 8,
      stallMs: STALL_MS,
    });
    await models.start(new AbortController().signal);
    this.app = createTestApp({ pipeline, clock, metrics }).app;
  }

  /** Lets what is ready now happen, without time passing. */
  async turn(): Promise<void> {
    await this.clock.advance(0);
    await new Promise(setImmediate);
  }

  /** Lets time pass, from timer to timer, until `isSo`. Rejects after `limitMs` of it. */
  async until(isSo: () => boolean, what: string, limitMs = 60_000): Promise<void> {
    const endMs = this.clock.nowMs() + limitMs;
    for (await this.turn(); !isSo(); await this.turn()) {
      if (this.clock.nowMs() >= endMs) throw new Error(`not within ${limitMs} ms: ${what}`);
      await this.clock.advanceToTimers(endMs - this.clock.nowMs());
    }
  }
}

/** Returns `plane` for a caller that may die. A dead caller sends no more requests. */
function mortalCaller(plane: RequestPlane): { readonly plane: RequestPlane; die(): void } {
  let isDead = false;
  const nobody: ReturnType<RequestPlane['call']> = {
    stop: () => {},
    kill: () => {},
    pause: () => {},
    resume: () => {},
  };
  return {
    plane: { ...plane, call: (...asked) => (isDead ? nobody : plane.call(...asked)) },
    die: () => {
      isDead = true;
    },
  };
}
