import type { Clock } from '../../clock/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { OpenExchanges, type Plan } from '../http/exchange.ts';
import { noSuchModel, planText, readModels } from '../http/openai-wire.ts';
import { tracingHeaders, type UpstreamAnswer } from '../http/upstream.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { EngineHost } from '../server/engine-host.ts';
import { serverSettings } from '../server/launch.ts';
import type { Engine, EngineInfo, EngineKind, EngineLoad, EngineSink } from '../types.ts';

const PROBE_TIMEOUT_MS = 5000;
/** Engines that list their models under their own name. */
const CHAT_ENGINES: ReadonlySet<string> = new Set(['vllm', 'sglang']);
/** Number of names that a log line lists. */
const LISTED_MAX = 20;
/** Limit of a health check; its caller has a deadline of its own. */
const HEALTH_TIMEOUT_MS_MAX = 600_000;

export interface OpenAiEngineOptions {
  /** Base URL of the server, with or without `/v1`. */
  readonly url: string;
  /** Key sent as `Authorization: Bearer`. */
  readonly apiKey?: string | undefined;
  /** Name of the model in the server. @default the first one that it lists */
  readonly modelName?: string | undefined;
  /** Whether the model is offered only for embeddings (`--embedding-worker`). @default false */
  readonly embedsOnly?: boolean;
  /** Longest time to open a connection. @default 5000 */
  readonly connectTimeoutMs?: number;
  /** Longest silence of the server within a request, its first answer included. @default 300,000 */
  readonly idleTimeoutMs?: number;
  /** Time that `start` waits for the server to come up. @default 10,000 */
  readonly startTimeoutMs?: number | undefined;
}

interface OpenAiEngineDeps {
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Attaches any OpenAI-compatible server as an engine that takes text. The client's body passes through unchanged,
 * except for the model's name and the request for usage; every chunk comes back as `body`. A request that does not
 * stream gives one whole object.
 *
 * @throws TypeError when `url` is not an HTTP URL.
 */
export function createOpenAiEngine(options: OpenAiEngineOptions, deps: OpenAiEngineDeps): Engine {
  return new OpenAiEngine(options, deps);
}

class OpenAiEngine implements Engine {
  readonly kind = 'openai';
  readonly #options: OpenAiEngineOptions;
  readonly #host: EngineHost;
  readonly #open: OpenExchanges;
  readonly #logger: Logger;
  #modelName: string | undefined;
  #isStopped = false;

  constructor(options: OpenAiEngineOptions, deps: OpenAiEngineDeps) {
    this.#options = options;
    this.#logger = deps.logger;
    const { url, apiKey, connectTimeoutMs = 5000, idleTimeoutMs = 300_000, startTimeoutMs = 10_000 } = options;
    const probe = (signal: AbortSignal): Promise<void> => this.#probe(PROBE_TIMEOUT_MS, signal);
    this.#open = new OpenExchanges({ clock: deps.clock, idleTimeoutMs, probe });
    this.#host = new EngineHost({ ...deps, url, apiKey, connectTimeoutMs, startTimeoutMs });
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    const answer = await this.#host.untilUp('/v1/models', (first) => this.#faultOf(first), signal);
    const models = answer.status === 200 ? readModels(answer.text) : [];
    const wanted = this.#options.modelName;
    const model = wanted === undefined ? models[0] : models.find((candidate) => candidate.id === wanted);
    if (model === undefined && (wanted === undefined || models.length > 0)) {
      throw noSuchModel(models, wanted, { at: ` at ${this.#options.url}`, hint: 'name it' });
    }
    if (wanted === undefined) this.#logOthers(models.map(({ id }) => id));
    this.#modelName = model?.id ?? wanted;
    return {
      contextLength: model?.contextLength,
      kvBlockSizeTokens: 16, // the server's own is unknown
      totalKvBlocks: 0,
      maxNumSeqs: undefined,
      maxNumBatchedTokens: undefined,
      dataParallelSize: 1,
      modelInput: 'Text',
      // Only the server knows which of these the model supports; it refuses the others.
      modelType: this.#options.embedsOnly === true ? ['Embedding'] : ['Chat', 'Completions', 'Embedding'],
      publishesKvEvents: false,
      ...(model?.owner !== undefined && CHAT_ENGINES.has(model.owner) ? { chatEngine: model.owner } : {}),
      ...(this.#modelName === undefined ? {} : { modelName: this.#modelName }),
    };
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    let plan: Plan;
    try {
      plan = planText(request, sink, 'an OpenAI-compatible engine', this.#modelName, headersOf(request));
      if (this.#isStopped) throw workerError('EngineShutdown', 'the engine is stopped');
    } catch (thrown) {
      sink.fail(toServeError(thrown));
      return;
    }
    this.#open.start({ upstream: this.#host.upstream, plan, sink, signal });
  }

  health(signal: AbortSignal): Promise<void> {
    return this.#probe(HEALTH_TIMEOUT_MS_MAX, signal);
  }

  async #probe(timeoutMs: number, signal: AbortSignal): Promise<void> {
    let answer = await this.#host.askUntil({ path: '/health' }, timeoutMs, signal);
    if (answer.status === 404 || answer.status === 405) {
      answer = await this.#host.askUntil({ path: '/v1/models' }, timeoutMs, signal);
    }
    if (answer.status >= 300) throw workerError('Unavailable', `the engine's health check answered ${answer.status}`);
  }

  load(): readonly EngineLoad[] {
    const unknown = { waitingRequests: 0, usedKvBlocks: 0, totalKvBlocks: 0, activePrefillTokens: 0 };
    return [{ dpRank: 0, runningRequests: this.#open.count, ...unknown }];
  }

  onKvEvents(): void {
    // such a server reports nothing about its cache
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#open.fail(workerError('EngineShutdown', 'the engine is stopped'));
    await this.#host.stop();
  }

  /** Logs the other models of the server: a user who did not name a model may want another one than the first. */
  #logOthers([first, ...others]: readonly string[]): void {
    if (others.length === 0) return;
    const shown = others.slice(0, LISTED_MAX).join(', ');
    const more = others.length > LISTED_MAX ? ` and ${others.length - LISTED_MAX} more` : '';
    const says = 'the server has several models, and this worker serves the first; --model names another';
    this.#logger.info(says, { served: first, others: `${shown}${more}` });
  }

  /** Returns why to retry. @throws Error when a retry would not help */
  #faultOf({ status }: UpstreamAnswer): string | undefined {
    if (status === 401 || status === 403) {
      throw new Error(`the engine at ${this.#options.url} refuses the API key (${status}): check the key`);
    }
    return status < 500 ? undefined : `it answers ${status}`; // 404: it serves the configured model
  }
}

/**
 * Returns the headers of a request. Such a server may belong to another party, so it gets the client's own request id
 * if there is one.
 */
function headersOf(request: EngineRequest): Readonly<Record<string, string>> {
  const headers = tracingHeaders(request);
  const clientId = request.trace?.requestId;
  return clientId === undefined ? headers : { ...headers, 'x-request-id': clientId };
}

/** Engine kind `--engine openai`: a running server, by its URL. */
export const openai: EngineKind = {
  displayName: ({ servedModelName, modelName }) => servedModelName?.[0] ?? modelName,

  async open(config, { clock, logger }) {
    const { settings } = config;
    const { url, apiKey, startTimeoutMs } = serverSettings(config);
    if (url === undefined) throw new Error('--engine openai needs --engine-url');
    const options = { url, apiKey, startTimeoutMs, modelName: settings.model, embedsOnly: settings.embeddingWorker };
    const engine = createOpenAiEngine(options, { clock, logger });
    return { engine: withMediaGuard(engine, settings, clock), model: {} };
  },
};
