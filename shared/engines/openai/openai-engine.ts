import type { Clock } from '../../clock/index.ts';
import { reasonOf, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import type { Engine, EngineInfo, EngineLoad, EngineSink } from '../types.ts';
import { Generation, type GenerationDeps } from './generation.ts';
import { get, jsonOrText, Upstream, type UpstreamAnswer } from './upstream.ts';

const PROBE_TIMEOUT_MS = 5000;
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

const PATHS: Readonly<Record<string, string>> = {
  chat_completions: '/v1/chat/completions',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
};

/** Where a server may say how long a sequence can be: vLLM and SGLang, then others. */
const CONTEXT_FIELDS = ['max_model_len', 'context_length', 'context_window', 'max_context_length'];

/**
 * Attaches any OpenAI-compatible server as an engine that takes text: the client's body goes through as it is, apart from
 * the model's name, and every chunk comes back as `body`. A request that does not stream gives one whole object.
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
  readonly #open = new Set<Generation>();
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
    const models = readModels(await this.#firstAnswer(signal));
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
    const path = input.kind === 'text' ? PATHS[input.endpoint] : undefined;
    if (input.kind !== 'text' || path === undefined) {
      const what = input.kind === 'text' ? `requests to ${input.endpoint}` : `${input.kind} input`;
      sink.fail(workerError('NotImplemented', `an OpenAI-compatible engine does not take ${what}`));
      return;
    }
    if (this.#stopping.signal.aborted) {
      sink.fail(workerError('EngineShutdown', 'the engine is stopped'));
      return;
    }
    const body = JSON.stringify({ ...input.body, model: this.#modelName ?? input.body.model });
    const onAbort = (): void => generation.drop();
    const generation = new Generation(this.#generationDeps(signal, onAbort), sink, input.body.stream === true);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#open.add(generation);
    generation.send(path, body, request.id);
  }

  async health(signal: AbortSignal): Promise<void> {
    let answer = await this.#get('/health', signal);
    if (answer.status === 404 || answer.status === 405) answer = await this.#get('/v1/models', signal);
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
    for (const generation of [...this.#open]) generation.fail(workerError('EngineShutdown', 'the engine is stopped'));
    this.#upstream.close();
  }

  #generationDeps(signal: AbortSignal, onAbort: () => void): GenerationDeps {
    return {
      upstream: this.#upstream,
      clock: this.#clock,
      idleTimeoutMs: this.#options.idleTimeoutMs ?? 300_000,
      isAlive: () =>
        this.health(signal).then(
          () => true,
          () => false, // any failure of the probe is the answer
        ),
      onClosed: (generation) => {
        this.#open.delete(generation);
        signal.removeEventListener('abort', onAbort);
      },
    };
  }

  #get(path: string, signal: AbortSignal): Promise<UpstreamAnswer> {
    const both = AbortSignal.any([signal, this.#stopping.signal]);
    return get(this.#upstream, path, this.#clock, PROBE_TIMEOUT_MS, both);
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

/** `http://host:8000`, with or without `/v1` behind it. */
function baseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError(`the engine's URL must start with http:// or https://, got \`${text}\``);
  }
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return url;
}

interface ListedModel {
  readonly id: string;
  readonly contextLength: number | undefined;
}

function readModels({ status, text }: UpstreamAnswer): ListedModel[] {
  const body = status === 200 ? (jsonOrText(text) as { data?: unknown } | null) : null;
  const rows: unknown[] = Array.isArray(body?.data) ? body.data : [];
  return rows.flatMap((row) => {
    const fields = (row ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof fields.id !== 'string') return [];
    const lengths = CONTEXT_FIELDS.map((name) => fields[name]);
    const contextLength = lengths.find((value) => typeof value === 'number' && Number.isInteger(value) && value > 0);
    return [{ id: fields.id, contextLength: contextLength as number | undefined }];
  });
}
