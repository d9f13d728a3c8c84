import { type Random, systemRandom } from '../clock/index.ts';
import { ServeError, toServeError } from '../errors/index.ts';
import { asksForDryRun, type GenerationRequest, type GenerationSink, type OutputOptions } from '../protocol/index.ts';
import type { WorkerSetRecord } from '../scheduler/index.ts';
import { type LoadedModel, PromptEncoder, type Tokenizer } from '../tokens/index.ts';
import { ResponseAssembler } from './answer/response-assembler.ts';
import { planSplit, type SplitPlan } from './answer/text-split.ts';
import type { LiveModelDirectory } from './models/model-directory.ts';
import { requestableModels } from './models/requestable-models.ts';
import type { RoutableModel } from './models/routable-model.ts';
import {
  BusyThresholds,
  type GenerateOptions,
  type ModelDirectory,
  type Pipeline,
  type PromptTokenIds,
} from './pipeline.ts';
import type { PipelineOptions } from './pipeline-options.ts';
import { MediaMemory } from './prompt/media-memory.ts';
import { PromptPreparation } from './prompt/prepare.ts';
import type { Preprocessed } from './prompt/preprocess.ts';
import { Vocabulary } from './prompt/vocabulary.ts';
import { assembleRun } from './run/assemble-run.ts';
import { DryRun } from './run/dry-run.ts';
import { ModelFinder } from './run/model-finder.ts';
import { NextTurns } from './run/next-turns.ts';
import { type Placement, type PlaceOptions, type Placer, Placing } from './run/placing.ts';
import { RequestTimes, TimedResponse } from './run/request-times.ts';
import { RequestRun } from './run/run.ts';
import { routedRequest } from './run/run-context.ts';
import type { StalledWorkers } from './run/stalled-workers.ts';
import type { RunDeps } from './run/worker-search.ts';

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
  readonly #finder: ModelFinder;
  readonly #preparation: PromptPreparation;
  readonly #vocabulary: Vocabulary;
  readonly #context: RunDeps;
  readonly #stalled: StalledWorkers;
  readonly #dryRun: DryRun | undefined;
  readonly #placing: Placing;
  readonly #nextTurns: NextTurns;
  /** Requests whose steps are timed now. */
  #timed = 0;

  constructor(options: PipelineOptions) {
    const { models, clock, observer, explanations } = options;
    this.#options = options;
    this.models = models;
    this.requestable = requestableModels(models, options.hold !== undefined);
    this.thresholds = options.thresholds ?? new BusyThresholds();
    const random = options.random ?? systemRandom;
    this.#random = random;
    const tools = {
      encoder: options.encoder ?? new PromptEncoder({ clock }),
      media: options.media ?? new MediaMemory(),
      clock,
      observer,
      maxTokensDefault: options.maxTokensDefault,
    };
    this.#finder = new ModelFinder(options, random);
    this.#preparation = new PromptPreparation(options, tools);
    this.#vocabulary = new Vocabulary(options, this.#finder, this.#preparation, tools);
    const { context, prefill, stalled } = assembleRun(options, this.thresholds, random);
    this.#context = context;
    this.#stalled = stalled;
    const { speculativePrefillsMax: max = 16 } = options;
    this.#nextTurns = new NextTurns({ clock, observer, random, tools, max, run: context, prefill });
    this.#placing = new Placing(context);
    this.#dryRun = explanations && new DryRun(context, (request) => explanations.explain(request));
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

  countTokens(request: GenerationRequest): Promise<number | undefined> {
    return this.#vocabulary.count(request);
  }

  tokenize(request: GenerationRequest, addsSpecialTokens: boolean): Promise<PromptTokenIds> {
    return this.#vocabulary.tokenize(request, addsSpecialTokens);
  }

  vocabularyOf(name: string): Promise<{ readonly tokenizer: Tokenizer; readonly workerSet?: WorkerSetRecord }> {
    return this.#vocabulary.of(name);
  }

  textOf(name: string, tokenIds: readonly number[]): Promise<string> {
    return this.#vocabulary.textOf(name, tokenIds);
  }

  async place(asked: GenerationRequest, holder: GenerationSink, { signal, admits }: PlaceOptions): Promise<Placement> {
    const { hold, observer } = this.#options;
    try {
      const model = await this.#finder.setFor(asked, holder, { signal, admits });
      const { request, preprocessed } = await this.#preparation.run(asked, model, signal, observer);
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
   * Returns a function that serves the request with another worker set than `left`; undefined if there is none, or if
   * the request names its worker. Each set is tried once.
   */
  #elsewhere(left: RoutableModel, serving: Serving): (() => void) | undefined {
    const { asked, sink, options } = serving;
    const tried = new Set([...serving.tried, left.mdcSum]);
    const other = this.#finder.otherSet(asked, tried);
    if (other === undefined) return undefined;
    return () => this.#orFail(this.#serveWith(other, { ...serving, tried }), sink, options);
  }

  async #serve(
    asked: GenerationRequest,
    sink: GenerationSink,
    options: GenerateOptions,
    times: RequestTimes | undefined,
  ): Promise<void> {
    const model = await this.#finder.setFor(asked, sink, options);
    await this.#serveWith(model, { asked, sink, options, times, tried: new Set() });
  }

  async #serveWith(model: RoutableModel, serving: Serving): Promise<void> {
    const { asked, sink, times } = serving;
    const { signal, meter } = serving.options;
    const { clock } = this.#options;
    const observer = times?.observer ?? this.#options.observer;
    const { request, loaded, preprocessed } = await this.#preparation.run(asked, model, signal, observer);
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
}

/** Asks the worker to keep special tokens if the client has not chosen, because the worker may make the text itself. */
function keepSpecialTokens(prompt: Preprocessed): Preprocessed {
  const output: OutputOptions = { skip_special_tokens: false, ...prompt.request.output };
  return { ...prompt, request: { ...prompt.request, output } };
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
