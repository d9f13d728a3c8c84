import type { Clock } from '../../clock/index.ts';
import { reasonOf, toServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import { OpenExchanges, type Plan } from '../http/exchange.ts';
import { baseUrl, planText, readModels } from '../http/openai-wire.ts';
import { ask, tracingHeaders, Upstream, type UpstreamAnswer } from '../http/upstream.ts';
import { withMediaGuard } from '../media/index.ts';
import type { Engine, EngineInfo, EngineKind, EngineLoad, EngineSink } from '../types.ts';

const PROBE_TIMEOUT_MS = 5000;
/** Whoever asks for the health has a deadline of their own. */
const HEALTH_TIMEOUT_MS_MAX = 600_000;
const PROBE_PAUSE_MS = 250;

export interface OpenAiEngineOptions {
  /** Base URL of the server, with or without `/v1`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer`. */
  readonly apiKey?: string | undefined;
  /** What the server calls the model. Default: the first one that it lists. */
  readonly modelName?: string | undefined;
  /** Longest time to make a connection. Default 5000. */
  readonly connectTimeoutMs?: number;
  /** Longest silence of the server within a request, its first answer included. Default 300,000. */
  readonly idleTimeoutMs?: number;
  /** How long `start` waits for the server to come up. Default 10,000. */
  readonly startTimeoutMs?: number;
}

/**
 * Attaches any OpenAI-compatible server as an engine that takes text: the client's body goes through as it is, apart from
 * the model's name and the wish for usage, and every chunk comes back as `body`. A request that does not stream gives one whole object.
 *
 * @throws TypeError when `url` is no HTTP URL.
 */
export function createOpenAiEngine(options: OpenAiEngineOptions, deps: { readonly clock: Clock }): Engine {
  return new OpenAiEngine(options, deps.clock);
}

class OpenAiEngine implements Engine {
  readonly kind = 'openai';
  readonly #options: OpenAiEngineOptions;
  readonly #clock: Clock;
  readonly #url: URL;
  readonly #upstream: Upstream;
  readonly #open: OpenExchanges;
  readonly #stopping = new AbortController();
  #modelName: string | undefined;

  constructor(options: OpenAiEngineOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#url = baseUrl(options.url);
    const { apiKey, connectTimeoutMs = 5000, idleTimeoutMs = 300_000 } = options;
    this.#open = new OpenExchanges({ clock, idleTimeoutMs, probe: (signal) => this.#probe(PROBE_TIMEOUT_MS, signal) });
    this.#upstream = new Upstream({ url: this.#url, apiKey, connectTimeoutMs, clock });
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    const answer = await this.#firstAnswer(signal);
    const models = answer.status === 200 ? readModels(answer.text) : [];
    const wanted = this.#options.modelName;
    const model = wanted === undefined ? models[0] : models.find((candidate) => candidate.id === wanted);
    if (model === undefined && (wanted === undefined || models.length > 0)) {
      const known = models.map(({ id }) => id).join(', ') || 'none';
      const missing = wanted === undefined ? 'lists no model: name it' : `does not serve \`${wanted}\``;
      throw new Error(`the engine at ${this.#url.href} ${missing} (models it lists: ${known})`);
    }
    this.#modelName = model?.id ?? wanted;
    return {
      contextLength: model?.contextLength,
      kvBlockSizeTokens: 16, // the server's own is not known
      totalKvBlocks: 0,
      maxNumSeqs: undefined,
      maxNumBatchedTokens: undefined,
      dataParallelSize: 1,
      modelInput: 'Text',
      // Which of these the model can do, only the server knows: it says so when it is asked.
      modelType: ['Chat', 'Completions', 'Embedding'],
      publishesKvEvents: false,
      ...(this.#modelName === undefined ? {} : { modelName: this.#modelName }),
    };
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    let plan: Plan;
    try {
      plan = planText(request, sink, 'an OpenAI-compatible engine', this.#modelName, headersOf(request));
      if (this.#stopping.signal.aborted) throw workerError('EngineShutdown', 'the engine is stopped');
    } catch (thrown) {
      sink.fail(toServeError(thrown));
      return;
    }
    this.#open.start({ upstream: this.#upstream, plan, sink, signal });
  }

  health(signal: AbortSignal): Promise<void> {
    return this.#probe(HEALTH_TIMEOUT_MS_MAX, signal);
  }

  async #probe(timeoutMs: number, signal: AbortSignal): Promise<void> {
    let answer = await this.#get('/health', signal, timeoutMs);
    if (answer.status === 404 || answer.status === 405) answer = await this.#get('/v1/models', signal, timeoutMs);
    if (answer.status >= 300) throw workerError('Unavailable', `the engine's health check answered ${answer.status}`);
  }

  load(): readonly EngineLoad[] {
    const unknown = { waitingRequests: 0, usedKvBlocks: 0, totalKvBlocks: 0, activePrefillTokens: 0 };
    return [{ dpRank: 0, runningRequests: this.#open.count, ...unknown }];
  }

  onKvEvents(): void {
    // such a server tells nothing of its cache
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the engine is stopped'));
    this.#open.fail(workerError('EngineShutdown', 'the engine is stopped'));
    this.#upstream.close();
  }

  #get(path: string, signal: AbortSignal, timeoutMs = PROBE_TIMEOUT_MS): Promise<UpstreamAnswer> {
    const both = AbortSignal.any([signal, this.#stopping.signal]);
    return ask(this.#upstream, { path }, { clock: this.#clock, timeoutMs, signal: both });
  }

  /** The server's list of models; asks again until it is up, within the start's deadline. */
  async #firstAnswer(signal: AbortSignal): Promise<UpstreamAnswer> {
    const { startTimeoutMs = 10_000 } = this.#options;
    const untilMs = this.#clock.nowMs() + startTimeoutMs;
    for (;;) {
      const answer = await this.#get('/v1/models', signal).catch((thrown: unknown) => reasonOf(thrown));
      signal.throwIfAborted();
      if (typeof answer !== 'string' && answer.status < 500) {
        if (answer.status !== 401 && answer.status !== 403) return answer; // 404: it serves the model that it is told
        throw new Error(`the engine at ${this.#url.href} refuses the API key (${answer.status}): check the key`);
      }
      const reason = typeof answer === 'string' ? answer : `it answers ${answer.status}`;
      if (this.#clock.nowMs() + PROBE_PAUSE_MS > untilMs) {
        throw new Error(`no engine at ${this.#url.href} within ${startTimeoutMs} ms (${reason}): check the URL`);
      }
      await this.#clock.sleep(PROBE_PAUSE_MS, signal);
    }
  }
}

/** Such a server is another party's: it is told the client's own request id where there is one. */
function headersOf(request: EngineRequest): Readonly<Record<string, string>> {
  const headers = tracingHeaders(request);
  const clientId = request.trace?.requestId;
  return clientId === undefined ? headers : { ...headers, 'x-request-id': clientId };
}

/** `--engine openai`: a running server, by its URL. */
export const openai: EngineKind = {
  displayName: ({ servedModelName, modelName }) => servedModelName ?? modelName,

  async open({ settings }, { clock }) {
    const { engineUrl, engineApiKey, model } = settings;
    if (engineUrl === undefined) throw new Error('--engine openai needs --engine-url');
    const engine = createOpenAiEngine({ url: engineUrl, apiKey: engineApiKey, modelName: model }, { clock });
    return { engine: withMediaGuard(engine, settings, clock), model: {} };
  },
};
