import type { Clock, Timer } from '../../clock/index.ts';
import {
  detailOf,
  faultOfStatus,
  readFault,
  reasonOf,
  type ServeError,
  toServeError,
  workerError,
} from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { OpenExchanges, type Plan } from '../http/exchange.ts';
import { planText } from '../http/openai-wire.ts';
import { isRefused, jsonOrText, tracingHeaders, type UpstreamMessage } from '../http/upstream.ts';
import { EventRelay } from '../kv-stream/event-relay.ts';
import { sourcesOfRanks } from '../kv-stream/event-sources.ts';
import { EventWatch } from '../kv-stream/event-watch.ts';
import type { Engine, EngineInfo, EngineLatency, EngineLoad, EngineSink, KvEvent } from '../types.ts';
import type { EngineDialect, EventFeed, TokenRequest } from './dialect.ts';
import { EngineHost } from './engine-host.ts';
import { type PartialLoad, readLatency, readLoads } from './engine-metrics.ts';
import type { EventPlan } from './followed-events.ts';
import { type LaunchFacts, launchFactsOf } from './launch-facts.ts';
import type { LaunchPlan } from './launch-plan.ts';

/** Options of engines that have a server of their own. */
export interface ServerEngineOptions {
  /** URL of a server that already runs ... */
  readonly url?: string | undefined;
  /** ... or the plan for starting one. */
  readonly launch?: LaunchPlan | undefined;
  /** Facts about the command line of an attached server. @default none */
  readonly launchFacts?: LaunchFacts | undefined;
  /** Key sent as `Authorization: Bearer`. */
  readonly apiKey?: string | undefined;
  /** Longest time to open a connection. @default 5000 */
  readonly connectTimeoutMs?: number | undefined;
  /** Longest silence of the engine within a request, its first answer included. @default 300,000 */
  readonly idleTimeoutMs?: number | undefined;
  /** Time that `start` waits for a healthy engine. @default 1,800,000 if it is started, otherwise 10,000 */
  readonly startTimeoutMs?: number | undefined;
  /** Interval at which the engine's metrics are read. @default 1000 */
  readonly scrapeIntervalMs?: number | undefined;
  /** Longest wait for one answer of a replay of KV events. @default 2000 */
  readonly replayTimeoutMs?: number | undefined;
  /** Time after the first output of a prompt within which its KV events must come. @default 5000 */
  readonly eventWaitMs?: number | undefined;
}

export interface ServerEngineDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called for KV events of the engine that could not be converted. */
  onDroppedKvEvents?(count: number): void;
}

const PROBE_TIMEOUT_MS = 5000;
const ABORT_TIMEOUT_MS = 2000;
/** Tokens of a block below which routing costs noticeably more. The default of SGLang is 1. */
const SMALL_BLOCK_TOKENS = 8;
/** Limit for loading an adapter, sleeping and waking, which move weights. */
const WEIGHTS_TIMEOUT_MS = 300_000;

/**
 * Inference engine behind its own HTTP server: vLLM, SGLang or TensorRT-LLM, started or attached.
 *
 * | State | generate | sleep | wake | stop |
 * |---|---|---|---|---|
 * | awake | an exchange | -> asleep | - | fails open requests |
 * | asleep | `WorkerUnavailable`: the engine would hang | - | -> awake | ends |
 * | stopped | `EngineShutdown` | - | - | - |
 */
export class ServerEngine implements Engine {
  readonly kind: EngineDialect['kind'];
  readonly isOwn: boolean;
  readonly #dialect: EngineDialect;
  readonly #options: ServerEngineOptions;
  readonly #deps: ServerEngineDeps;
  readonly #host: EngineHost;
  readonly #open: OpenExchanges;
  /** Prompt tokens and rank of requests without output: engines do not report how much prefill is pending. */
  readonly #prefills = new Map<EngineRequest, { readonly dpRank: number; readonly tokens: number }>();
  readonly #stopping = new AbortController();
  readonly #watch: EventWatch;
  #info: EngineInfo | undefined;
  #relay: EventFeed | undefined;
  #scrapeTimer: Timer | undefined;
  #scraping: Promise<void> | undefined;
  #metrics: string | undefined;
  #loads: readonly PartialLoad[] = [];
  #latency: EngineLatency | undefined;
  #listener: ((events: readonly KvEvent[]) => void) | undefined;
  #isAsleep = false;
  #wasAway = false;

  constructor(dialect: EngineDialect, options: ServerEngineOptions, deps: ServerEngineDeps) {
    this.kind = dialect.kind;
    this.#dialect = dialect;
    this.#options = options;
    this.#deps = deps;
    const { url, launch, apiKey, connectTimeoutMs = 5000, idleTimeoutMs = 300_000 } = options;
    this.isOwn = launch !== undefined;
    const { clock, logger } = deps;
    const onDoubt = (): void => this.#relay?.catchUp();
    this.#watch = new EventWatch({ clock, logger, waitMs: options.eventWaitMs, onDoubt });
    const probe = (signal: AbortSignal): Promise<void> =>
      this.#host.probe(dialect.deadStatus, PROBE_TIMEOUT_MS, signal);
    this.#open = new OpenExchanges({ clock, idleTimeoutMs, probe });
    const startTimeoutMs = options.startTimeoutMs ?? (launch === undefined ? 10_000 : 1_800_000);
    this.#host = new EngineHost({ url, launch, apiKey, connectTimeoutMs, startTimeoutMs, clock, logger });
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    await this.#host.start(signal);
    const { args } = this.#host;
    const { kind } = this;
    const hasLaunchFacts = args !== undefined && kind !== 'trtllm'; // engines whose events the command line configures
    const launchFacts = hasLaunchFacts ? launchFactsOf(args, kind) : this.#options.launchFacts;
    const { info, events, version, ways } = await this.#dialect.probe(this.#host.whileStarting(signal), launchFacts);
    this.#info = info;
    const { clock, logger } = this.#deps;
    logger.info('engine is up', { engine: this.kind, version, kv_events: events.followed?.source.endpoint, ...ways });
    await this.#follow(events, info);
    this.#scrapeTimer = clock.every(this.#options.scrapeIntervalMs ?? 1000, () => {
      this.#scraping ??= this.#scrape();
    });
    return info;
  }

  /** Subscribes to the KV events, and reports if requested ones cannot be followed. */
  async #follow({ followed, fault, ranks }: EventPlan, info: EngineInfo) {
    const { kvBlockSizeTokens: blockSizeTokens } = info;
    const { clock, logger, onDroppedKvEvents } = this.#deps;
    if (fault !== undefined) this.#watch.cannotFollow(fault);
    const onDropped = (dropped: number): void => onDroppedKvEvents?.(dropped);
    const onCame = (): void => this.#watch.came();
    const asked = this.#dialect.followEvents?.(info, { server: this.#host, clock, logger, onDropped, onCame });
    if (asked !== undefined) await this.#listenTo(asked);
    if (followed === undefined) return;
    const { count } = followed.ranks;
    if (blockSizeTokens < SMALL_BLOCK_TOKENS) {
      logger.warn('small KV blocks: each is an event and an entry at every router; --page-size 16 or more costs less', {
        block_size: blockSizeTokens,
      });
    }
    if (count < ranks) logger.warn('KV events of ranks on other machines are not followed', { ranks, followed: count });
    const host = this.#options.url === undefined ? '127.0.0.1' : this.#host.upstream.hostname;
    const sources = sourcesOfRanks(followed.source, followed.ranks, host);
    const { replayTimeoutMs } = this.#options;
    const relay = new EventRelay({ sources, blockSizeTokens, logger, replayTimeoutMs, onDropped, onCame });
    await this.#listenTo(relay);
  }

  async #listenTo(feed: EventFeed): Promise<void> {
    this.#relay = feed;
    await feed.open();
    feed.catchUp();
    if (this.#listener !== undefined) feed.listen(this.#listener);
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    let plan: Plan;
    try {
      this.#refuse();
      plan =
        request.input.kind === 'tokens' ? this.#plan(request as TokenRequest, sink) : this.#planText(request, sink);
    } catch (thrown) {
      sink.fail(toServeError(thrown));
      return;
    }
    const prefilled = (): void => void this.#prefills.delete(request);
    const begun = (): void => {
      prefilled();
      if (request.input.kind === 'tokens') this.#watchEvents(request.input.tokenIds.length);
    };
    this.#open.start({
      upstream: this.#host.upstream,
      plan,
      sink,
      signal,
      onBegun: begun,
      onDropped: () => this.#abort(request),
      onClosed: prefilled,
    });
  }

  health(signal: AbortSignal): Promise<void> {
    return this.#host.health(this.#dialect.deadStatus, signal);
  }

  load(): readonly EngineLoad[] {
    const ranks = this.#info?.dataParallelSize ?? 1;
    const totalKvBlocks = this.#info?.totalKvBlocks ?? 0;
    return Array.from({ length: ranks }, (_, dpRank) => ({
      runningRequests: ranks === 1 ? this.#open.count : 0,
      waitingRequests: 0,
      usedKvBlocks: 0,
      totalKvBlocks,
      activePrefillTokens: this.#prefillTokens(dpRank),
      ...this.#loads.find((load) => load.dpRank === dpRank),
      dpRank,
    }));
  }

  onKvEvents(listener: (events: readonly KvEvent[]) => void): void {
    this.#listener = listener;
    this.#relay?.listen(listener);
  }

  onKvEventFault(listener: (fault: string | undefined) => void): void {
    this.#watch.listen(listener);
  }

  #watchEvents(promptTokens: number): void {
    if (this.#relay === undefined || this.#info === undefined) return;
    this.#watch.answered(Math.floor(promptTokens / this.#info.kvBlockSizeTokens));
  }

  tokenLatency(): EngineLatency | undefined {
    return this.#latency;
  }

  metricsText(): string | undefined {
    return this.#metrics;
  }

  onExit(listener: (reason: Error) => void): void {
    this.#host.onExit(listener);
  }

  async clearKvBlocks(): Promise<void> {
    const body = await this.#command(this.#dialect.clearKvBlocks, 'clear its cache');
    const isSilent = this.#dialect.clearsInSilence === true && asRecord(body)?.success === undefined;
    if (isSilent && (await this.#isBusy())) throw notDone('emptied its cache');
    this.#relay?.clear();
  }

  /** Returns whether requests run or wait, by a fresh reading of its metrics. */
  async #isBusy(): Promise<boolean> {
    const { text } = await this.#host.ask({ path: '/metrics' }, PROBE_TIMEOUT_MS);
    const loads = readLoads(text, this.#dialect.loadMetrics, 0);
    return loads.some(({ runningRequests = 0, waitingRequests = 0 }) => runningRequests + waitingRequests > 0);
  }

  async sleep(level: number): Promise<void> {
    this.#isAsleep = true;
    try {
      await this.#command(this.#dialect.sleep?.(level), 'sleep', WEIGHTS_TIMEOUT_MS);
      this.#relay?.clear();
    } catch (error) {
      this.#isAsleep = false;
      throw error;
    }
  }

  async wake(tags: readonly string[]): Promise<void> {
    await this.#command(this.#dialect.wake?.(tags), 'wake', WEIGHTS_TIMEOUT_MS);
    this.#isAsleep = false;
  }

  async loadLora(name: string, folder: string): Promise<void> {
    const body = JSON.stringify({ lora_name: name, lora_path: folder });
    const { loadLora: path } = this.#dialect;
    try {
      await this.#command(path === undefined ? undefined : { path, body }, 'load adapters', WEIGHTS_TIMEOUT_MS);
    } catch (error) {
      if (!/already (been )?loaded/i.test(detailOf(error))) throw error; // the engine may outlive its worker
    }
  }

  async unloadLora(name: string): Promise<void> {
    const { unloadLora: path } = this.#dialect;
    const body = JSON.stringify({ lora_name: name });
    await this.#command(path === undefined ? undefined : { path, body }, 'unload adapters');
  }

  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#stopping.abort(new Error('the engine is stopped'));
    this.#scrapeTimer?.cancel();
    this.#watch.close();
    this.#open.fail(workerError('EngineShutdown', 'the engine is stopped'));
    await this.#relay?.close();
    await this.#host.stop();
  }

  /** Refuses requests that the engine cannot take. @throws ServeError when no request can be taken now */
  #refuse(): void {
    if (this.#stopping.signal.aborted) throw workerError('EngineShutdown', 'the engine is stopped');
    if (this.#isAsleep) throw workerError('WorkerUnavailable', 'the engine is asleep');
  }

  /**
   * Sends a command and returns the answer. @throws ServeError with the engine's own words when it does not carry it
   * out
   */
  async #command(message: UpstreamMessage | undefined, deed: string, timeoutMs?: number): Promise<unknown> {
    if (message === undefined) throw workerError('NotImplemented', `the engine (${this.kind}) cannot ${deed}`);
    const { status, text } = await this.#host.ask({ method: 'POST', ...message }, timeoutMs);
    const body = jsonOrText(text);
    if (status < 300) {
      // vLLM from 0.26 on reports this for a cache whose blocks are in use
      if (asRecord(body)?.success !== false) return body;
      throw notDone(`done ${message.path}`);
    }
    const fault = readFault(body, 'no message');
    if (status === 404 && fault.message === 'Not Found') {
      throw workerError('NotImplemented', `the engine has no ${message.path}`);
    }
    throw faultOfStatus(status, fault);
  }

  #plan(request: TokenRequest, sink: EngineSink): Plan {
    const plan = this.#dialect.plan(request, sink);
    this.#prefills.set(request, { dpRank: request.routing.dp_rank ?? 0, tokens: request.input.tokenIds.length });
    return plan;
  }

  #planText(request: EngineRequest, sink: EngineSink): Plan {
    const model = request.routing.lora_name ?? this.#info?.modelName;
    const isChat = request.input.kind === 'text' && request.input.endpoint === 'chat_completions';
    const extras = isChat ? this.#dialect.planChat?.(request) : undefined;
    const headers = extras?.headers ?? tracingHeaders(request);
    return planText(request, sink, 'this engine', model, headers, extras?.fields);
  }

  #abort(request: EngineRequest): void {
    const message = this.#dialect.abort?.(request);
    if (message === undefined || this.#stopping.signal.aborted) return;
    this.#host.ask(message, ABORT_TIMEOUT_MS).catch((reason: unknown) => {
      this.#deps.logger.debug('an abort did not reach the engine', { reason: reasonOf(reason) });
    });
  }

  #prefillTokens(dpRank: number): number {
    let sum = 0;
    for (const prefill of this.#prefills.values()) if (prefill.dpRank === dpRank) sum += prefill.tokens;
    return sum;
  }

  /** Reads the engine's metrics. Never rejects. */
  async #scrape(): Promise<void> {
    try {
      const { metricsPath: path = '/metrics' } = this.#dialect;
      const { status, text } = await this.#host.ask({ path }, PROBE_TIMEOUT_MS);
      if (!this.#stopping.signal.aborted) this.#readMetrics(status === 200 ? text : '');
    } catch (reason) {
      if (isRefused(reason)) this.#wasAway = true; // a busy engine may answer late, but is still the same process
    } finally {
      this.#scraping = undefined;
    }
  }

  #readMetrics(text: string): void {
    this.#metrics = text;
    this.#loads = readLoads(text, this.#dialect.loadMetrics, this.#info?.totalKvBlocks ?? 0);
    this.#latency = readLatency(text, this.#dialect.latencyMetrics);
    if (!this.#wasAway) return;
    this.#wasAway = false;
    // A server that was away and is back is very likely a new process. Requesting its events again costs a replay and
    // loses nothing.
    this.#relay?.restart();
  }
}

function notDone(what: string): ServeError {
  return workerError('Unavailable', `the engine has not ${what}: it is busy; try again when it is idle`);
}
