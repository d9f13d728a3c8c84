import { type Clock, type Random, systemRandom } from '../clock/index.ts';
import type { ModelType } from '../discovery/index.ts';
import { ServeError, toServeError } from '../errors/index.ts';
import type { RequestPlane } from '../planes/index.ts';
import {
  asksForDryRun,
  ENDPOINTS,
  type GenerationRequest,
  type GenerationSink,
  isPinned,
  type OutputOptions,
} from '../protocol/index.ts';
import type { Router } from '../router/index.ts';
import { Inhibition, type WorkerSetRecord } from '../scheduler/index.ts';
import { inSpan } from '../telemetry/index.ts';
import { type LoadedModel, PromptEncoder, type Tokenizer } from '../tokens/index.ts';
import { ResponseAssembler } from './answer/response-assembler.ts';
import { planSplit, type SplitPlan } from './answer/text-split.ts';
import type { ExplanationSource } from './control/routing-explainer.ts';
import type { LiveModelDirectory } from './models/model-directory.ts';
import { modelNotFound, modelNotReady } from './models/model-errors.ts';
import type { ModelStore } from './models/model-store.ts';
import { requestableModels } from './models/requestable-models.ts';
import type { RoutableModel, Worker } from './models/routable-model.ts';
import {
  chooseOtherSet,
  chooseSet,
  describeSet,
  isSameProcess,
  largestSet,
  routableWorkers,
  sameSet,
  workerSetsOf,
} from './models/worker-sets.ts';
import {
  BusyThresholds,
  type BusyThresholdValues,
  type GenerateOptions,
  type ModelDirectory,
  type Pipeline,
  type PipelineObserver,
  type PromptTokenIds,
  servesType,
} from './pipeline.ts';
import { MediaMemory } from './prompt/media-memory.ts';
import { isReadByWorker } from './prompt/media-prompt.ts';
import { type Preprocessed, preprocess, promptTokens, withCardDefaults } from './prompt/preprocess.ts';
import { type PromptTools, tokenizePrompt } from './prompt/prompt-tokens.ts';
import { type ColdStartQueue, capacityOf, type WorkerCapacity } from './run/cold-start-queue.ts';
import { DryRun } from './run/dry-run.ts';
import { EncodeStage } from './run/encode-stage.ts';
import { NextTurns } from './run/next-turns.ts';
import { type Placement, type PlaceOptions, type Placer, Placing } from './run/placing.ts';
import { type Bypass, PrefillStage } from './run/prefill-stage.ts';
import { RequestTimes, TimedResponse } from './run/request-times.ts';
import { RequestRun } from './run/run.ts';
import { routedRequest } from './run/run-context.ts';
import { canaryProbe, StalledWorkers, StreamWatch } from './run/stalled-workers.ts';
import type { RunDeps } from './run/worker-search.ts';

export interface PipelineOptions {
  readonly models: LiveModelDirectory;
  readonly store: ModelStore;
  /** Router. Its owner passes it the workers when `models` change. */
  readonly router: Router<Worker>;
  /** Inhibition of the router, to which the pipeline reports workers that fail. */
  readonly inhibition: Inhibition;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  /** Encodes prompts. @default one without a cache and without threads */
  readonly encoder?: PromptEncoder;
  /** Memory of what engines made of media. @default an empty one */
  readonly media?: MediaMemory;
  /** Source of the ids of tool calls. @default systemRandom */
  readonly random?: Random;
  readonly observer: PipelineObserver;
  /** Most moves of one request to another worker. @default 3 */
  readonly migrationLimit?: number;
  /** Tokens of prompt and output above which a request no longer moves. @default no limit */
  readonly migrationTokensMax?: number | undefined;
  /** Longest silence of a worker within a stream, 0 = no bound. In milliseconds. @default 0 */
  readonly streamSilenceMsMax?: number;
  /**
   * Silence within a stream, in milliseconds, after which its worker gets no new request until a canary passes. 0 =
   * never.
   * @default 0
   */
  readonly stallMs?: number;
  /** Longest time for the first answer of a worker, in milliseconds. @default 0 */
  readonly warmUpMs?: number | undefined;
  /** Longest wait for the answer to a canary, in milliseconds. @default 3000, less if `stallMs` is less */
  readonly canaryTimeoutMs?: number;
  /**
   * Whether to hide tools from the template when `tool_choice` is `none`; a model's card may also say no.
   * @default true
   */
  readonly excludesUnusableTools?: boolean;
  /**
   * Tokens of a choice for requests that name no number (`STATOR_MAX_TOKENS_DEFAULT`).
   * @default what the context leaves
   */
  readonly maxTokensDefault?: number | undefined;
  /**
   * Whether a failed prefill fails its request (`--enforce-disagg`). Otherwise the decode worker computes the prompt.
   * @default false
   */
  readonly enforcesPrefill?: boolean;
  /** Explains where a request would go. @default absent: requests that ask for it are answered like others */
  readonly explanations?: Pick<ExplanationSource, 'explain'> | undefined;
  /** Most prompts of next turns that are computed ahead at the same time, for requests that ask for it. @default 16 */
  readonly speculativePrefillsMax?: number;
  /** Decides when a decode worker computes a prompt itself (`--router-conditional-disagg`). @default never */
  readonly bypassesPrefill?: Bypass | undefined;
  /**
   * Queue of requests whose model has no worker. Its owner calls `look` after every change of `models`. @default such
   * requests fail
   */
  readonly hold?: ColdStartQueue | undefined;
  /** Busy thresholds of every model until others are set. @default none */
  readonly thresholds?: BusyThresholds;
  /** Called with a worker to which no connection could be made. @default nothing is called */
  readonly onUnreachable?: (workerId: string) => void;
  /** Returns the workers above `limits`. @default none */
  readonly busyWorkers?: (workers: readonly Worker[], limits: BusyThresholdValues) => ReadonlySet<string> | undefined;
}

/** Time until the next report of a worker's load, which says whether the worker is still full. */
const LOAD_REPORT_MS = 1000;

/**
 * Creates a pipeline. `close` ends what the pipeline does in the background; clients end their own running requests.
 */
export function createPipeline(options: PipelineOptions): Pipeline & Placer & { close(): void } {
  return new DiscoveredPipeline(options);
}

/** A request with a worker set. */
interface Serving {
  readonly asked: GenerationRequest;
  readonly sink: GenerationSink;
  readonly options: GenerateOptions;
  readonly times: RequestTimes | undefined;
  /** Checksums of the cards of worker sets that could not serve it. */
  readonly tried: ReadonlySet<string>;
}

class DiscoveredPipeline implements Pipeline, Placer {
  readonly models: LiveModelDirectory;
  readonly requestable: ModelDirectory;
  readonly thresholds: BusyThresholds;
  readonly #options: PipelineOptions;
  readonly #random: Random;
  readonly #tools: PromptTools;
  readonly #context: RunDeps;
  readonly #stalled: StalledWorkers;
  readonly #dryRun: DryRun | undefined;
  readonly #placing: Placing;
  readonly #nextTurns: NextTurns;
  /** Requests whose steps are timed now. */
  #timed = 0;

  constructor({
    migrationLimit = 3,
    streamSilenceMsMax: silenceMsMax = 0,
    stallMs = 0,
    warmUpMs,
    ...options
  }: PipelineOptions) {
    const { models, clock, observer } = options;
    this.#options = options;
    this.models = models;
    this.requestable = requestableModels(models, options.hold !== undefined);
    this.thresholds = options.thresholds ?? new BusyThresholds();
    this.#random = options.random ?? systemRandom;
    this.#tools = {
      encoder: options.encoder ?? new PromptEncoder({ clock }),
      media: options.media ?? new MediaMemory(),
      clock,
      observer,
      maxTokensDefault: options.maxTokensDefault,
    };
    const { canaryTimeoutMs: timeoutMs = Math.min(3000, stallMs || 3000), plane } = options;
    const bosTokenOf = async (model: RoutableModel) => (await options.store.get(model)).info.bosTokenId;
    const probe = canaryProbe({ plane, clock, random: this.#random, timeoutMs, bosTokenOf });
    const listedNow = ({ id, transport }: Worker): { readonly isSame: boolean } | undefined => {
      for (const { workers } of models.list().flatMap(workerSetsOf)) {
        const now = workers.find((worker) => worker.id === id);
        if (now !== undefined) return { isSame: isSameProcess(now, { id, transport }) };
      }
      return undefined;
    };
    this.#stalled = new StalledWorkers({
      clock,
      probe,
      pauseMs: timeoutMs / 3,
      isListed: (worker) => listedNow(worker)?.isSame === true,
      onRecovered: () => options.hold?.look(),
      observer,
    });
    const busyOf: RunDeps['busyOf'] = (model, workers) =>
      options.busyWorkers?.(workers, this.thresholds.of(model.primaryName));
    const modelNow = (model: RoutableModel) => sameSet(models.find(model.primaryName), model);
    const watched = { clock, silenceMsMax, stallMs, warmUpMs, probe, stalledWorkers: this.#stalled, modelNow };
    const streamWatch = silenceMsMax > 0 || stallMs > 0 ? new StreamWatch(watched) : undefined;
    const shared = {
      router: options.router,
      plane,
      clock,
      observer,
      streamWatch,
      stalledWorkers: this.#stalled,
      failedWorkers: options.inhibition,
      fullWorkers: new Inhibition(clock, LOAD_REPORT_MS),
      onUnreachable: options.onUnreachable,
      isReplaced: (worker: Worker) => listedNow(worker)?.isSame === false,
      busyOf,
    };
    const prefill = {
      ...shared,
      modelNow,
      random: this.#random,
      isEnforced: options.enforcesPrefill ?? false,
      bypasses: options.bypassesPrefill,
    };
    this.#context = {
      ...shared,
      encode: new EncodeStage({ ...shared, modelNow }),
      prefill: new PrefillStage(prefill),
      migrationLimit,
      migrationTokensMax: options.migrationTokensMax,
      hold: options.hold,
      poolOf: (model) => {
        const now = modelNow(model);
        return { pool: (now ?? model).pool, workers: now === undefined ? [] : routableWorkers(now) };
      },
    };
    const { speculativePrefillsMax: max = 16, explanations } = options;
    const parts = { clock, observer, random: this.#random, tools: this.#tools, max };
    this.#nextTurns = new NextTurns({ ...parts, run: this.#context, prefill });
    this.#placing = new Placing(this.#context);
    this.#dryRun = explanations && new DryRun(this.#context, (request) => explanations.explain(request));
  }

  generate(request: GenerationRequest, asker: GenerationSink, options: GenerateOptions): void {
    this.#nextTurns.arrived(request);
    const times = this.#options.observer.timed && this.#timesOf(request, options.signal);
    // `follow` needs the very sink that `listen` returns, so the timed one is inside.
    const sink = this.#nextTurns.listen(request, times === undefined ? asker : times.listen(asker));
    this.#orFail(this.#serve(request, sink, options, times), sink, options);
  }

  /** Fails the request if `serving` rejects. */
  #orFail(serving: Promise<void>, sink: GenerationSink, { signal }: GenerateOptions): void {
    serving.catch((thrown: unknown) => {
      this.#options.hold?.over(sink);
      if (!signal.aborted) sink.fail(toServeError(thrown));
    });
  }

  #timesOf(request: GenerationRequest, signal: AbortSignal): RequestTimes {
    const { clock, observer } = this.#options;
    this.#timed++;
    const onOver = (): void => void this.#timed--;
    return new RequestTimes({ clock, observer, request, signal, active: this.#timed, onOver });
  }

  close(): void {
    this.#nextTurns.close();
    this.#stalled.close();
  }

  async countTokens(request: GenerationRequest): Promise<number | undefined> {
    const known = this.models.known(request.model);
    const model = known && largestSet(known);
    if (model === undefined || model.isPlanned || model.card.model_input !== 'Tokens') return undefined;
    // Its worker counts them
    if (isReadByWorker(request, model)) return undefined;
    return promptTokens(this.#asModelWants(request, model), await this.#options.store.get(model), this.#tools);
  }

  async tokenize(request: GenerationRequest, addsSpecialTokens: boolean): Promise<PromptTokenIds> {
    const { model, tokenizer, loaded, workerSet } = await this.#vocabularyOf(request.model);
    if (isReadByWorker(request, model)) throw workerTells(request.model);
    const limits = { model: request.model, contextLength: 0, addsSpecialTokens };
    const { tokenIds } = await tokenizePrompt(this.#asModelWants(request, model), loaded, this.#tools, limits);
    return {
      tokenIds,
      contextLength: model.contextLength,
      spelled: (id) => tokenizer.idToToken(id),
      ...(workerSet && { workerSet }),
    };
  }

  vocabularyOf(name: string): Promise<{ readonly tokenizer: Tokenizer; readonly workerSet?: WorkerSetRecord }> {
    return this.#vocabularyOf(name);
  }

  async #vocabularyOf(name: string) {
    const known = this.#withCard(name);
    const model = largestSet(known);
    if (model.card.model_input !== 'Tokens') throw workerTells(name);
    const loaded = await this.#options.store.get(model);
    const workerSet = describeSet(known, model);
    return { model, loaded, tokenizer: loaded.tokenizer, ...(workerSet && { workerSet }) };
  }

  async textOf(name: string, tokenIds: readonly number[]): Promise<string> {
    const model = largestSet(this.#withCard(name));
    if (model.card.model_input !== 'Tokens') return '';
    const { tokenizer } = await this.#options.store.get(model);
    return tokenizer.decode(tokenIds, { skipSpecialTokens: false });
  }

  /** Returns a model whose card is known. @throws ServeError `model_not_found`, `service_unavailable` */
  #withCard(name: string): RoutableModel {
    const model = this.models.known(name);
    if (model === undefined) throw this.#notFound(name);
    if (model.isPlanned) throw modelNotReady(name);
    return model;
  }

  /** Returns the request with the defaults of the model's card and of this deployment for its prompt. */
  #asModelWants(request: GenerationRequest, { card }: RoutableModel): GenerationRequest {
    return withCardDefaults(request, card, this.#options.excludesUnusableTools ?? true);
  }

  #notFound(name: string, type?: ModelType): ServeError {
    const { isPart } = this.models;
    return modelNotFound(this.models.list(), { name, type, param: 'model', isPart, refused: this.models.refused() });
  }

  async place(asked: GenerationRequest, holder: GenerationSink, { signal, admits }: PlaceOptions): Promise<Placement> {
    const { hold, observer } = this.#options;
    try {
      const model = await this.#setFor(asked, holder, { signal, admits });
      const { request, preprocessed } = await this.#prepare(asked, model, signal, observer);
      const { request: ready, media, promptTokens } = preprocessed;
      const places = await this.#placing.run(ready, routedRequest(request, model, signal, media), admits);
      const release = (): void => {
        places.release();
        hold?.over(holder);
      };
      if (signal.aborted) {
        release();
        throw signal.reason;
      }
      return { ...places, promptTokens: ready.input.kind === 'tokens' ? promptTokens : undefined, release };
    } catch (thrown) {
      hold?.over(holder);
      throw thrown;
    }
  }

  /**
   * Finds the model of a request, and chooses one of its worker sets. Rejects as `#modelFor` does.
   * @param holder identity of the request in the queue of requests that wait for workers
   */
  async #setFor(
    asked: GenerationRequest,
    holder: GenerationSink,
    { signal, admits }: Pick<PlaceOptions, 'signal'> & Partial<PlaceOptions>,
  ): Promise<RoutableModel> {
    const type = ENDPOINTS[asked.endpoint].modelType;
    const named = await this.#modelFor(asked, type, holder, signal);
    return chooseSet(named, { type, routing: asked.routing, admits }, this.#random);
  }

  /**
   * Returns a function that serves the request with another worker set than `left`; undefined if there is none, or if
   * the request names its worker. Each set is tried once.
   */
  #elsewhere(left: RoutableModel, serving: Serving): (() => void) | undefined {
    const { asked, sink, options } = serving;
    const now = this.models.find(asked.model);
    if (now === undefined || isPinned(asked)) return undefined;
    const tried = new Set([...serving.tried, left.mdcSum]);
    const other = chooseOtherSet(now, ENDPOINTS[asked.endpoint].modelType, tried, this.#random);
    if (other === undefined) return undefined;
    return () => this.#orFail(this.#serveWith(other, { ...serving, tried }), sink, options);
  }

  /** Makes the prompt of a request for the workers of a set. Rejects with a ServeError, or with the signal's reason. */
  async #prepare(asked: GenerationRequest, model: RoutableModel, signal: AbortSignal, observer: PipelineObserver) {
    const loaded = await this.#loadedFor(asked, model);
    signal.throwIfAborted();
    const request = this.#asModelWants(asked, model);
    const { clock } = this.#options;
    const tools = observer === this.#options.observer ? this.#tools : { ...this.#tools, observer };
    const startMs = clock.nowMs();
    observer.stageEntered?.('preprocess');
    const preprocessed = await inSpan(request.trace.span, 'tokenize', () =>
      preprocess(request, model, loaded, tools, signal),
    ).finally(() => observer.stageLeft?.('preprocess'));
    observer.stage?.('preprocess', clock.nowMs() - startMs);
    signal.throwIfAborted();
    return { request, loaded, preprocessed };
  }

  async #serve(
    asked: GenerationRequest,
    sink: GenerationSink,
    options: GenerateOptions,
    times: RequestTimes | undefined,
  ): Promise<void> {
    const model = await this.#setFor(asked, sink, options);
    await this.#serveWith(model, { asked, sink, options, times, tried: new Set() });
  }

  async #serveWith(model: RoutableModel, serving: Serving): Promise<void> {
    const { asked, sink, times } = serving;
    const { signal, meter } = serving.options;
    const { clock } = this.#options;
    const observer = times?.observer ?? this.#options.observer;
    const { request, loaded, preprocessed } = await this.#prepare(asked, model, signal, observer);
    if (this.#dryRun !== undefined && asksForDryRun(request.annotations)) {
      await this.#tellRoute(this.#dryRun, request, model, preprocessed, sink, signal);
      return;
    }
    // Without a reader the worker answers with bodies
    const reader = preprocessed.request.input.kind === 'text' ? undefined : loaded;
    if (reader !== undefined) {
      const { promptTokens } = preprocessed;
      meter.promptTokens(promptTokens); // otherwise the worker counts them
      this.#nextTurns.follow(sink, { request, model, loaded: reader, promptTokens });
    }
    const { input } = preprocessed.request;
    const tokenIds = input.kind === 'tokens' ? input.tokenIds : undefined;
    annotate(request, preprocessed.formattedPrompt, tokenIds, sink);
    // The engine has its own parsers
    const plan =
      reader === undefined && model.passesChats === true
        ? undefined
        : this.#splitOf(request, model, preprocessed, reader);
    const prompt = plan?.keepsSpecialTokens ? keepSpecialTokens(preprocessed) : preprocessed;
    const parts = [request, prompt, reader, sink, meter, plan, clock] as const;
    const response = times === undefined ? new ResponseAssembler(...parts) : new TimedResponse(times, ...parts);
    const context = times === undefined ? this.#context : { ...this.#context, observer };
    const elsewhere = (): (() => void) | undefined => this.#elsewhere(model, serving);
    new RequestRun(context, request, model, prompt, response, sink, signal, elsewhere).start();
  }

  #splitOf(
    request: GenerationRequest,
    { card }: RoutableModel,
    { formattedPrompt }: Preprocessed,
    reader: LoadedModel | undefined,
  ): SplitPlan | undefined {
    return planSplit({ request, card, tokenizer: reader?.tokenizer, formattedPrompt, random: this.#random });
  }

  /**
   * Loads the model that a request needs; undefined if only its worker reads the prompt. An engine can also answer a
   * chat whose template or tokenizer cannot be loaded here. Such a chat is routed by load.
   */
  #loadedFor({ prompt }: GenerationRequest, model: RoutableModel): Promise<LoadedModel | undefined> | undefined {
    if (model.card.model_input !== 'Tokens') return undefined;
    const loading = this.#options.store.get(model);
    if (model.passesChats !== true || prompt.kind !== 'chat') return loading;
    return loading.catch(() => undefined); // the store has reported why
  }

  async #tellRoute(
    dryRun: DryRun,
    request: GenerationRequest,
    model: RoutableModel,
    { request: ready, media }: Preprocessed,
    sink: GenerationSink,
    signal: AbortSignal,
  ): Promise<void> {
    if (request.hidesCache === true) {
      const says = 'query_instance_id tells whose caches hold a prompt, which keys do not learn of each other';
      throw new ServeError('insufficient_permissions', says, { param: 'nvext.annotations' });
    }
    const workers = await dryRun.run(ready, routedRequest(request, model, signal, media));
    sink.routed(workers, ready.input.kind === 'tokens' ? [...ready.input.tokenIds] : []);
  }

  /**
   * Returns the model that the request names, as soon as it can be served.
   * @throws ServeError `model_not_found`, `service_unavailable`
   */
  async #modelFor(
    { model: name, stream: isStream }: GenerationRequest,
    type: ModelType,
    sink: GenerationSink,
    signal: AbortSignal,
  ): Promise<RoutableModel> {
    const model = this.models.known(name);
    if (model === undefined || !servesType(model, type)) throw this.#notFound(name, type);
    const { hold } = this.#options;
    if (hold === undefined || (model.readiness.isReady && !hold.isHolding(model.primaryName))) {
      if (!model.readiness.isReady) throw modelNotReady(name);
      return model;
    }
    const find = (): (WorkerCapacity & { readonly ready: RoutableModel }) | undefined => {
      const ready = this.models.find(name);
      return ready?.readiness.isReady === true ? { ready, capacity: capacityOf(ready, ready.workers) } : undefined;
    };
    const { ready } = await hold.until({ model: model.primaryName, isStream, find, holder: sink }, signal);
    if (!servesType(ready, type)) throw this.#notFound(name, type); // a planned model takes any kind
    // Its worker takes the body itself, and the request was read as one that is not passed on.
    if (model.isPlanned && type === 'Embedding' && ready.card.model_input === 'Text') throw modelNotReady(name);
    return ready;
  }
}

/** Asks the worker to keep special tokens if the client has not chosen, because the worker may make the text itself. */
function keepSpecialTokens(prompt: Preprocessed): Preprocessed {
  const output: OutputOptions = { skip_special_tokens: false, ...prompt.request.output };
  return { ...prompt, request: { ...prompt.request, output } };
}

function workerTells(name: string): ServeError {
  return new ServeError('not_implemented', `model \`${name}\` has no tokenizer here: its worker reads text`, {
    param: 'model',
  });
}

/** Sends the annotations of the preprocessing that the client asked for. */
function annotate(
  request: GenerationRequest,
  formattedPrompt: string | undefined,
  tokenIds: Uint32Array | undefined,
  sink: GenerationSink,
): void {
  if (!request.stream || request.annotations.length === 0) return;
  if (request.annotations.includes('formatted_prompt') && formattedPrompt !== undefined) {
    sink.annotation('formatted_prompt', JSON.stringify(formattedPrompt));
  }
  if (request.annotations.includes('token_ids') && request.prompt.kind !== 'tokens' && tokenIds !== undefined) {
    sink.annotation('token_ids', JSON.stringify([...tokenIds]));
  }
}
