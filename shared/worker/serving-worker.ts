import { Lifetime } from '../concurrency/index.ts';
import type { DiscoveryRecord, EndpointRecord, EventSourceRecord, ModelCard, ModelRecord } from '../discovery/index.ts';
import type { EngineInfo } from '../engines/index.ts';
import { detailOf, type ServeError, workerError } from '../errors/index.ts';
import { type IncomingCall, isOfDynamo, type PlaneServer, type Transport } from '../planes/index.ts';
import { healthCheckRequest } from '../protocol/index.ts';
import { QUOTE_ENDPOINT } from '../stateless-router/index.ts';
import { RESERVATION_HEADER } from '../worker-events/index.ts';
import { Adapters } from './adapters/adapters.ts';
import {
  Admission,
  CallsUnderWay,
  type DrainReport,
  drainCalls,
  flushStreams,
  LastFetches,
  serveOnlyReleases,
  servePrefillRelease,
} from './calls/calls-under-way.ts';
import { QuoteService } from './calls/quote-service.ts';
import { isCanary, isRetry, ServedCall } from './calls/served-call.ts';
import { WorkerCondition } from './condition.ts';
import { serveSideEndpoints, WorkerControl } from './control/control.ts';
import { metadataPath } from './control/status-server.ts';
import { DynamoRegistry } from './dynamo-registry.ts';
import { EngineCanary, EngineMonitor, stopEngine } from './engine-watch.ts';
import { showEventFaults } from './events/event-faults.ts';
import { ReservedRequests } from './events/event-records.ts';
import { WorkerReports } from './events/reports.ts';
import { TrafficCounter } from './events/rollup-reporter.ts';
import type { CanarySettings, SettledOptions, WorkerSettings } from './options.ts';
import { Registration } from './registration.ts';

/** Canaries that fail in a row before the worker leaves discovery. */
const CANARY_FAILURES_MAX = 3;

/**
 * A worker from its registration to the end of its drain. The `state` of its condition decides how it treats requests.
 */
export class ServingWorker {
  readonly instanceId: string;
  readonly engineInfo: EngineInfo;
  readonly card: ModelCard;
  readonly engineExit: Promise<Error>;
  readonly #bosTokenId: number | undefined;
  readonly #options: SettledOptions;
  readonly #settings: WorkerSettings;
  readonly #path: string;
  readonly #calls = new CallsUnderWay();
  readonly #reserved = new ReservedRequests();
  readonly #quotes: QuoteService;
  readonly #traffic: TrafficCounter;
  readonly #reports: WorkerReports;
  /** Keeps the engine of a draining prefill worker up while decode workers may still fetch blocks. */
  readonly #fetches: LastFetches | undefined;
  readonly #admission: Admission;
  readonly #endpointNames: string[] = [];
  #server: PlaneServer | undefined;
  #registration: Registration | undefined;
  #monitor: EngineMonitor | undefined;
  #canary: EngineCanary | undefined;
  #control: WorkerControl | undefined;
  readonly #condition = new WorkerCondition();
  #drained: Promise<DrainReport> | undefined;
  /** Time at which an order to drain fails the streams that are left (monotonic). */
  #drainByMs = Number.POSITIVE_INFINITY;
  #giveUpEngine: (reason: Error) => void = () => {};

  constructor(options: SettledOptions, info: EngineInfo, card: ModelCard, bosTokenId: number | undefined) {
    this.instanceId = options.instanceId ?? options.random.instanceId();
    this.engineInfo = info;
    this.card = card;
    this.#bosTokenId = bosTokenId;
    this.#options = options;
    this.#settings = options.settings;
    this.#traffic = new TrafficCounter(options.clock);
    const { namespace, component, endpoint } = options.address;
    this.#endpointNames.push(endpoint);
    this.#path = `${this.instanceId}/${namespace}/${component}/${endpoint}`;
    const { requestLimit, requestQueueLimit: queueLimit, prefillDrainMs } = this.#settings;
    if (card.worker_type === 'prefill') this.#fetches = new LastFetches(options.clock, prefillDrainMs);
    this.#admission = new Admission({ requestLimit, queueLimit, metrics: options.metrics });
    this.#reports = new WorkerReports({
      worker: options,
      settings: this.#settings,
      instanceId: this.instanceId,
      engineInfo: info,
      reserved: this.#reserved,
      traffic: this.#traffic,
      card,
      load: () => this.#admission.countedIn(options.engine.load()),
      isDraining: () => this.#condition.isDraining,
    });
    this.#quotes = new QuoteService({
      clock: options.clock,
      blockSizeTokens: info.kvBlockSizeTokens,
      load: () => this.#admission.countedIn(options.engine.load()),
      cachedTokens: (sequence) => this.#reports.cachedTokens(sequence),
      refusal: () => this.#refusal(),
      onUncountedPlace: () => options.metrics.uncountedPlace(),
    });
    this.engineExit = new Promise((resolve) => {
      this.#giveUpEngine = resolve;
    });
    options.engine.onExit?.((reason) => {
      this.#loseEngine(reason);
      this.#giveUpEngine(reason);
    });
  }

  get control(): WorkerControl {
    if (this.#control === undefined) throw new Error('the worker is not open');
    return this.#control;
  }

  get activeRequests(): number {
    return this.#calls.count;
  }

  /** Registers the worker. If that fails, closes what it has opened; later `drain` does so, in an order of its own. */
  open(server: PlaneServer, signal: AbortSignal): Promise<void> {
    return Lifetime.compose((lifetime) => this.#open(server, signal, lifetime));
  }

  async #open(server: PlaneServer, signal: AbortSignal, lifetime: Lifetime): Promise<void> {
    const { discovery, clock, logger } = this.#options;
    this.#server = lifetime.use(server);
    lifetime.defer(() => this.#stopTelling());
    const transport = server.handle(this.#path, this.#serve);
    const channels = await this.#reports.open(isOfDynamo(transport));
    const own = this.#records(transport);
    const records = [...channels, ...this.#serveBeside(server), ...own];
    const writeTimeoutMs = this.#settings.discoveryTimeoutMs;
    const store = isOfDynamo(transport) ? new DynamoRegistry(discovery, this.#options.address.endpoint) : discovery;
    const registration = new Registration({ discovery: store, records, clock, logger, writeTimeoutMs });
    this.#registration = lifetime.use(registration, () => registration.withdraw());
    showEventFaults(this.#options, this.instanceId, registration, own);
    this.#control = this.#openControl(registration);
    discovery.onLeaseLost(() => this.#noteLease('warn', 'lease lost: serving callers that still know this worker'));
    discovery.onLeaseRegained(() => this.#noteLease('info', 'lease regained'));
    await server.reachable(signal);
    await registration.register(signal);
    this.#watchEngine();
    logger.info('worker is ready', {
      instance_id: this.instanceId,
      model: this.card.display_name,
      pid: process.pid,
    });
  }

  #watchEngine(): void {
    const { clock, engine } = this.#options;
    const { healthIntervalMs: intervalMs, healthTimeoutMs: timeoutMs } = this.#settings;
    const onDown = (reason: unknown): void => {
      this.#loseEngine(reason);
      if (engine.isOwn === true) this.#giveUpEngine(new Error(`the engine is down: ${detailOf(reason)}`));
    };
    const onUp = (): void => this.#regainEngine();
    this.#monitor = new EngineMonitor({ engine, clock, intervalMs, timeoutMs, onDown, onUp });
    if (this.#settings.canary !== undefined) this.#canary = this.#openCanary(this.#settings.canary);
    this.#showHealth();
  }

  drain(withinMs = Number.POSITIVE_INFINITY): Promise<DrainReport> {
    this.#drainByMs = Math.min(this.#drainByMs, this.#options.clock.nowMs() + Math.max(0, withinMs));
    this.#condition.isDraining = true;
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  async #drain(): Promise<DrainReport> {
    const { clock, logger, metrics, engine } = this.#options;
    logger.info('worker is draining', { instance_id: this.instanceId, requests: this.#calls.count });
    this.#reports.tellDrain();
    this.#showHealth();
    if (this.#fetches === undefined) this.#server?.unhandle(this.#path);
    else this.#server?.handle(this.#path, serveOnlyReleases(engine));
    await this.#registration?.withdraw();
    if (this.#fetches === undefined) this.#server?.drain();
    const report = await drainCalls(this.#calls, clock, this.#settings, () => this.#drainByMs);
    metrics.drained(report);
    if (this.#server !== undefined) await flushStreams(this.#server, clock);
    await this.#fetches?.over();
    await this.#stopTelling();
    await stopEngine(this.#options); // a prefill engine may wait here until its blocks are fetched or released
    await this.#server?.close();
    logger.info('worker has drained', { instance_id: this.instanceId, ...report });
    return report;
  }

  readonly #serve = (call: IncomingCall): void => {
    const { engine, metrics, logger, tracer } = this.#options;
    if (servePrefillRelease(engine, call)) return;
    const isProbe = isCanary(call); // a full worker is not a silent one
    if (!isProbe && !this.#admission.hasRoom) {
      metrics.refused();
      this.#traffic.refused(isRetry(call));
      call.fail(workerError('WorkerOverloaded', 'Server overloaded: worker at capacity'));
      return;
    }
    const isReserved = call.headers[RESERVATION_HEADER] !== undefined;
    const onOver = (over: ServedCall): void => {
      this.#calls.remove(over);
      this.#admission.leave(over);
      this.#fetches?.noteEnd();
      if (isReserved) this.#reserved.left(call.id);
    };
    const admit = (admitted: ServedCall): void => (isProbe ? admitted.run() : this.#admission.enter(admitted));
    const served = new ServedCall(call, {
      engine,
      takesPromptEmbeds: this.engineInfo.takesPromptEmbeds,
      metrics,
      logger,
      traffic: this.#traffic,
      tracer,
      onActivity: this.#onActivity,
      onDoubt: this.#onDoubt,
      onOver,
      admit,
    });
    this.#calls.add(served);
    if (isReserved) this.#reserved.arrived(call.id);
    served.start();
    this.#quotes.arrived(call.id);
  };

  readonly #onActivity = (): void => this.#canary?.noteActivity();
  readonly #onDoubt = (): void => this.#monitor?.checkNow();

  /** Opens the canary. Returns undefined for models that no small request can probe. */
  #openCanary({ idleMs, timeoutMs, warmUpMs, payload }: CanarySettings): EngineCanary | undefined {
    const { engine, clock, random } = this.#options;
    const { display_name: model, model_input: input, model_type: types } = this.card;
    const probed = { model, input, types, bosTokenId: this.#bosTokenId };
    const request = () => healthCheckRequest(`canary-${random.uuid()}`, probed, payload);
    const first = request();
    if (first === undefined) return undefined;
    return new EngineCanary({
      engine,
      clock,
      idleMs,
      timeoutMs,
      warmUpMs,
      request: () => request() ?? first,
      isSuspended: () => !this.#condition.canBeProven,
      onFailed: (failures, reason) => this.#doubtEngine(failures, reason),
      onPassed: () => this.#trustEngine(),
    });
  }

  /** Refuses new requests from the first failure on, and leaves discovery at the third in a row. */
  #doubtEngine(failures: number, reason: string): void {
    if (this.#condition.isDraining) return;
    this.#options.logger.warn('canary failed', { instance_id: this.instanceId, failures, reason });
    this.#condition.isProven = false;
    this.#serveOrRefuse();
    if (failures === CANARY_FAILURES_MAX) void this.#registration?.withdraw(); // logs its own failures
  }

  #trustEngine(): void {
    if (this.#condition.isDraining) return;
    this.#options.logger.info('canary passed', { instance_id: this.instanceId });
    this.#condition.isProven = true;
    this.#serveOrRefuse();
    void this.#returnIfFit();
  }

  #serveOrRefuse(): void {
    if (this.#condition.isProven) this.#server?.handle(this.#path, this.#serve);
    else this.#server?.unhandle(this.#path);
    this.#showHealth();
  }

  /** Returns why a request that comes now would be refused or not answered; undefined = it would be served. */
  #refusal(): ServeError | undefined {
    if (!this.#admission.hasRoom) return workerError('WorkerOverloaded', 'Server overloaded: worker at capacity');
    if (this.#condition.isFit) return undefined;
    return workerError('WorkerUnavailable', 'the worker takes no requests now');
  }

  #serveBeside(server: PlaneServer): (EndpointRecord | EventSourceRecord)[] {
    const { address, engine } = this.#options;
    const { namespace, component } = address;
    if (this.#settings.enableLocalIndexer && this.#reports.journals.length > 0)
      server.handle(`${this.instanceId}/${namespace}/${component}/${QUOTE_ENDPOINT}`, this.#quotes.serve);
    return serveSideEndpoints({
      at: { namespace, component, instance_id: this.instanceId },
      engine,
      calls: this.#calls,
      journals: this.#settings.enableLocalIndexer ? this.#reports.journals : [],
      hasAdapters: this.#hasAdapters,
      dynamo: this.#reports.dynamo,
      control: () => this.control,
      serve: (endpoint, handler) => {
        this.#endpointNames.push(endpoint);
        return server.handle(`${this.instanceId}/${namespace}/${component}/${endpoint}`, handler);
      },
    });
  }

  /** Whether the worker loads adapters. Prefill workers hand blocks over and answer no client, so they load none. */
  get #hasAdapters(): boolean {
    return this.#settings.servesAdapters && this.#options.engine.loadLora !== undefined;
  }

  #openControl(registration: Registration): WorkerControl {
    const { engine, address, adapterCache: cache } = this.#options;
    const { card, instanceId } = this;
    const adapters = { engine, registration, card, address, instanceId, cache, filesAt: this.#filesAt() };
    return new WorkerControl({
      adapters: this.#hasAdapters ? new Adapters(adapters) : undefined,
      clearKvBlocks: engine.clearKvBlocks?.bind(engine),
      sleep: engine.sleep === undefined ? undefined : (level, signal) => this.#sleep(level, signal),
      wake: engine.wake === undefined ? undefined : (tags, signal) => this.#wake(tags, signal),
      sleepLevel: this.#settings.sleepLevel,
    });
  }

  /** Puts the engine to sleep: first leaves discovery, then ends the streams, then stops the engine. */
  async #sleep(level: number, signal: AbortSignal): Promise<void> {
    this.#condition.isAsleep = true;
    this.#showHealth();
    await this.#registration?.withdraw();
    await drainCalls(this.#calls, this.#options.clock, this.#settings);
    try {
      await this.#options.engine.sleep?.(level, signal);
    } catch (error) {
      await this.#awake();
      throw error;
    }
  }

  async #wake(tags: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#options.engine.wake?.(tags, signal);
    await this.#awake();
  }

  async #awake(): Promise<void> {
    this.#condition.isAsleep = false;
    this.#showHealth();
    await this.#returnIfFit();
  }

  /** Returns to discovery, unless another fact still prevents it. Failures are logged. */
  async #returnIfFit(): Promise<void> {
    if (this.#condition.isFit) await this.#registration?.restore();
  }

  #records(transport: Transport): DiscoveryRecord[] {
    const { address, clock, host, deviceType = this.engineInfo.deviceType } = this.#options;
    const at = { ...address, instance_id: this.instanceId };
    const device = deviceType === undefined ? {} : { device_type: deviceType };
    return [
      { type: 'Endpoint', ...at, transport, ...device, ...(host === undefined ? {} : { host }) },
      { type: 'Model', ...at, registered_at: Math.floor(clock.wallMs() / 1000), ...this.#filesAt(), card: this.card },
    ];
  }

  /** Returns the address of the card's files, for the records that carry the card. */
  #filesAt(): Pick<ModelRecord, 'files_at'> {
    const { filesFrom, address } = this.#options;
    const isServed = filesFrom !== undefined && Object.keys(this.card.files).length > 0;
    return isServed ? { files_at: `${filesFrom}/${metadataPath(address, this.card)}` } : {};
  }

  /**
   * Logs a change of the lease. A lease decides which workers get requests, not which may answer. So a worker keeps
   * serving without its store.
   */
  #noteLease(level: 'warn' | 'info', message: string): void {
    if (!this.#condition.isDraining) this.#options.logger[level](message, { instance_id: this.instanceId });
  }

  #loseEngine(reason: unknown): void {
    if (this.#condition.isDraining) return;
    this.#condition.isEngineUp = false;
    this.#options.logger.error('engine is down', { instance_id: this.instanceId, reason: detailOf(reason) });
    this.#showHealth();
    this.#calls.breakOff(workerError('EngineShutdown', 'the engine does not answer its health checks'));
    void this.#registration?.withdraw(); // logs its own failures
  }

  #regainEngine(): void {
    if (this.#condition.isDraining) return;
    this.#condition.isEngineUp = true;
    this.#options.logger.info('engine is back', { instance_id: this.instanceId });
    this.#showHealth();
    void this.#returnIfFit();
  }

  #showHealth(): void {
    const { isFit, isDraining, isAsleep } = this.#condition;
    this.#options.health?.setAtRest(isDraining || isAsleep, this.instanceId);
    for (const name of this.#endpointNames)
      this.#options.health?.set(name, isFit ? 'ready' : 'notready', this.instanceId);
  }

  async #stopTelling(): Promise<void> {
    this.#monitor?.stop();
    this.#canary?.stop();
    await this.#reports.close();
  }
}
