import type { Clock } from '../../clock/index.ts';
import { reasonOf, workerError } from '../../errors/index.ts';
import { type EngineRequest, enginePathOf } from '../../protocol/generation/index.ts';
import { EngineExchange, type ExchangeDeps } from '../http/exchange.ts';
import { askingForUsage, BodyReader, baseUrl, readModels } from '../http/openai-wire.ts';
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
  /** Block size told to routers. The server's own is not known. Default 16. */
  readonly kvBlockSizeTokens?: number;
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
  readonly #open = new Set<EngineExchange>();
  readonly #stopping = new AbortController();
  #modelName: string | undefined;

  constructor(options: OpenAiEngineOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#url = baseUrl(options.url);
    const { apiKey, connectTimeoutMs = 5000 } = options;
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
      kvBlockSizeTokens: this.#options.kvBlockSizeTokens ?? 16,
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
    const { input } = request;
    const path = input.kind === 'text' ? enginePathOf(input.endpoint) : undefined;
    if (input.kind !== 'text' || path === undefined) {
      const what = input.kind === 'text' ? `requests to ${input.endpoint}` : `${input.kind} input`;
      sink.fail(workerError('NotImplemented', `an OpenAI-compatible engine does not take ${what}`));
      return;
    }
    if (this.#stopping.signal.aborted) {
      sink.fail(workerError('EngineShutdown', 'the engine is stopped'));
      return;
    }
    const asked = askingForUsage(input.endpoint, input.body);
    const body = JSON.stringify({ ...asked, model: this.#modelName ?? input.body.model });
    const onAbort = (): void => exchange.drop();
    const reader = new BodyReader(sink, input.body.stream === true);
    const exchange = new EngineExchange(this.#exchangeDeps(signal, onAbort), sink, reader);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#open.add(exchange);
    exchange.send({ path, body, headers: headersOf(request) });
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
    return [{ dpRank: 0, runningRequests: this.#open.size, ...unknown }];
  }

  onKvEvents(): void {
    // such a server tells nothing of its cache
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the engine is stopped'));
    for (const exchange of [...this.#open]) exchange.fail(workerError('EngineShutdown', 'the engine is stopped'));
    this.#upstream.close();
  }

  #exchangeDeps(signal: AbortSignal, onAbort: () => void): ExchangeDeps {
    return {
      upstream: this.#upstream,
      clock: this.#clock,
      idleTimeoutMs: this.#options.idleTimeoutMs ?? 300_000,
      isAlive: () =>
        this.#probe(PROBE_TIMEOUT_MS, signal).then(
          () => true,
          () => false, // any failure of the probe is the answer
        ),
      onClosed: (exchange) => {
        this.#open.delete(exchange);
        signal.removeEventListener('abort', onAbort);
      },
    };
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
