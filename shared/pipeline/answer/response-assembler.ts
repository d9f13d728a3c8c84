import type { Clock } from '../../clock/index.ts';
import { ServeError, workerError } from '../../errors/index.ts';
import {
  type CompletionUsage,
  type EngineOutput,
  estimatePromptTokens,
  type FinishReason,
  type GenerationRequest,
  type GenerationSink,
  requestKeyOf,
  type TokenLogprob,
  type Usage,
} from '../../protocol/index.ts';
import type { RequestMeter, Span, WorkerLabels } from '../../telemetry/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import { type BodyChunk, type BodyTerms, WorkerBodies } from './bodies/worker-bodies.ts';
import { type ChoiceRules, ChoiceText, TextTokens } from './choice-text.ts';
import { type SplitPlan, TextSplit } from './text-split.ts';
import { failureInFinish, type LogprobStyle, namedLogprobs, toldReason } from './worker-output.ts';

/** Looking at the clock for each output would cost more than some of them do. */
const TIMED_EVERY = 8;
const NO_CLOCK: Pick<Clock, 'nowMs'> = { nowMs: () => 0 };

/** The detokenizer of a worker that sends text. */
const NO_DETOKENIZER = { push: () => '', flush: () => '' };
/** Prompt ids that prime the detokenizer. */
const PROMPT_TAIL = 6;
/** As traces name what choices end with. */
const FINISH_REASONS = 'gen_ai.response.finish_reasons';
/** Of short answers, whose estimate is wrong by more than its own size. */
const ESTIMATE_SLACK_TOKENS = 64;

/**
 * The answer to one request: worker output in, text and events out, across as many workers as it takes. Knows nothing of
 * workers. `isComplete` turns true when every choice has ended and nothing more is wanted from the worker.
 */
export class ResponseAssembler {
  readonly #sink: GenerationSink;
  /** Of the request, where spans are made. */
  readonly #span: Span | undefined;
  readonly #meter: RequestMeter;
  readonly #prompt: Preprocessed;
  readonly #loaded: LoadedModel | undefined;
  readonly #rules: ChoiceRules;
  readonly #logprobs: LogprobStyle | undefined;
  readonly #showsIds: boolean;
  readonly #choices: ChoiceText[] = [];
  readonly #plan: SplitPlan | undefined;
  /** By choice; empty when all text is content. */
  readonly #splits: TextSplit[] = [];
  readonly #skipsSpecialTokens: boolean;
  /** Puts bodies in shape; undefined where an answer has no choices. */
  readonly #bodies: WorkerBodies | undefined;
  /** Tokens of the prompt where nobody has counted them. */
  readonly #promptEstimate: number;
  readonly #hidesCache: boolean;
  #reasoningTokens = 0;
  /** By choice; kept for the span. */
  readonly #reasons: (string | undefined)[] = [];
  readonly #choiceCount: number;
  #finished = 0;
  #hasLocalEnd = false;
  #hasOverrun = false;
  #workerUsage: CompletionUsage | undefined;
  /** The worker answers in bodies of its own, whose tokens only it can count. */
  #hasBodies = false;
  /** Of its bodies, for where it does not. */
  readonly #bodyText = new TextTokens(undefined);
  #bodyTokens = 0;
  readonly #clock: Pick<Clock, 'nowMs'>;
  #pushes = 0;
  #pushedTokens = 0;
  #timedTokens = 0;
  #timedMs = 0;
  #isCarriedOn = false;
  /** Present once a worker has sent text without its tokens. */
  #textTokens: TextTokens | undefined;

  constructor(
    request: GenerationRequest,
    prompt: Preprocessed,
    loaded: LoadedModel | undefined,
    sink: GenerationSink,
    meter: RequestMeter,
    plan?: SplitPlan,
    clock: Pick<Clock, 'nowMs'> = NO_CLOCK,
  ) {
    this.#clock = clock;
    this.#prompt = prompt;
    this.#loaded = loaded;
    this.#sink = sink;
    this.#span = request.trace.span;
    this.#meter = meter;
    this.#choiceCount = request.sampling.n ?? 1;
    this.#plan = plan;
    this.#skipsSpecialTokens = request.output.skip_special_tokens ?? plan?.keepsSpecialTokens !== true;
    this.#rules = rulesOf(request, prompt, plan);
    const terms = bodyTerms(request, this.#rules.maxTokens);
    this.#bodies = terms && new WorkerBodies(terms);
    this.#promptEstimate = prompt.promptTokens > 0 ? 0 : estimatePromptTokens(request.prompt);
    if (this.#promptEstimate > 0) meter.promptEstimate(this.#promptEstimate);
    this.#logprobs = logprobStyle(request, loaded, this.#skipsSpecialTokens);
    this.#hidesCache = request.hidesCache === true;
    this.#showsIds = request.extraFields.includes('completion_token_ids');
  }

  /** Every choice has ended. */
  get isComplete(): boolean {
    return this.#finished >= this.#choiceCount;
  }

  /** Every choice has ended, and one of them before the worker said so: nothing more is wanted from it. */
  get endsBeforeWorker(): boolean {
    return this.#hasLocalEnd && this.isComplete;
  }

  /** A worker made more of a choice than was asked of it. */
  get hasOverrun(): boolean {
    return this.#hasOverrun;
  }

  /** Tokens that became text here, and the milliseconds that this took, as far as a part of them tells. */
  get detokenized(): { readonly tokens: number; readonly ms: number } {
    const share = this.#timedTokens === 0 ? 0 : this.#pushedTokens / this.#timedTokens;
    return { tokens: this.#pushedTokens, ms: this.#timedMs * share };
  }

  #noteTime(ms: number, tokens: number): void {
    this.#timedMs += ms;
    this.#timedTokens += tokens;
  }

  /** For the figures of workers. */
  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void {
    this.#meter.servedBy(prefill, decode);
  }

  /** For the figures of the request. */
  moved(): void {
    this.#meter.moved();
  }

  /** The hot path: plain tokens of one engine output. */
  tokens(choiceIndex: number, ids: ArrayLike<number>, start: number, count: number): void {
    const choice = this.#choice(choiceIndex);
    if (choice.isFinished) return;
    const isTimed = this.#pushes++ % TIMED_EVERY === 0;
    const startMs = isTimed ? this.#clock.nowMs() : 0;
    const pushed = choice.push(ids, start, count);
    if (isTimed) this.#noteTime(this.#clock.nowMs() - startMs, choice.counted);
    this.#pushedTokens += choice.counted;
    this.#meter.outputTokens(choice.counted);
    const text = this.#plan === undefined ? pushed : this.#split(choiceIndex, pushed, choice.counted);
    if (choice.hasEnded) {
      this.#finishHere(choiceIndex, choice, text, this.#showsIds ? slice(ids, start, choice.counted) : []);
    } else if (this.#showsIds) {
      this.#sink.delta({ choice: choiceIndex, text, tokenIds: slice(ids, start, count) });
    } else {
      this.#sink.text(choiceIndex, text, choice.counted);
    }
  }

  /** Everything that is not plain tokens. Returns a failure that the worker reports inside its output. */
  output(output: EngineOutput): ServeError | undefined {
    const failure = failureInFinish(output.finish_reason);
    if (failure !== undefined) return failure;
    if (output.completion_usage != null) this.#noteUsage(output.completion_usage);
    if (output.engine_data != null) this.#sink.engineData(output.engine_data);
    if (output.body !== undefined) this.#body(output);
    else if (this.#hasBodies && this.#bodies !== undefined) this.#besideBodies(this.#bodies, output);
    else this.#delta(output);
    return undefined;
  }

  /** Ends the choice for want of budget: used when a migrated request has no token left to make. */
  finishAtLength(): void {
    for (let index = 0; index < this.#choiceCount; index++) {
      const choice = this.#choice(index);
      if (!choice.isFinished) this.#finish(index, choice, this.#split(index, choice.flush(), 0), 'length', []);
    }
  }

  /** Another worker goes on from the tokens so far: what it counts as prompt is not the client's alone. */
  carriedOn(): void {
    this.#isCarriedOn = true;
  }

  /** The worker's stream is complete. */
  end(): void {
    if (this.#hasBodies && this.#bodies !== undefined) this.#endBodies(this.#bodies);
    const missing = this.#loaded === undefined ? this.#missingChoices() : undefined;
    if (missing !== undefined) {
      this.#sink.fail(missing);
      return;
    }
    this.#tellReasons();
    const usage = this.usage();
    this.#meter.promptTokens(usage.promptTokens); // unless the frontend has counted them itself
    if (this.#hasBodies && (this.#bodies ?? this.#workerUsage) !== undefined)
      this.#meter.piecesHold(usage.completionTokens);
    this.#sink.end(usage, this.#finished > 0);
  }

  /** Of each choice in turn, behind those of the prompts of a batch that have ended. */
  #tellReasons(): void {
    if (this.#span === undefined || this.#reasons.length === 0) return;
    const before = this.#span.attributes[FINISH_REASONS];
    const reasons = this.#reasons.filter((reason) => reason !== undefined);
    this.#span.set({ [FINISH_REASONS]: Array.isArray(before) ? [...before, ...reasons] : reasons });
  }

  /** Tokens as the client is shown them, as if the request had stayed where it began. */
  usage(): Usage {
    const worker = this.#workerUsage;
    const counted = this.#choices.reduce((sum, choice) => sum + choice.generated, 0);
    const hasOwnTokens = this.#loaded !== undefined && this.#textTokens === undefined && !this.#hasBodies;
    const isCountedHere = this.#hasOverrun || hasOwnTokens;
    const promptTokens = this.#promptTokens();
    const cached = worker?.prompt_tokens_details?.cached_tokens;
    const toldReasoning = worker?.completion_tokens_details?.reasoning_tokens;
    const reasoningTokens = this.#plan?.reasoning === undefined ? toldReasoning : this.#reasoningTokens;
    return {
      promptTokens,
      completionTokens: isCountedHere ? counted : worker?.completion_tokens || counted + this.#bodyTokens,
      ...(cached === undefined ? {} : { cachedTokens: Math.min(cached, promptTokens) }),
      ...(this.#hidesCache ? { hidesCache: true } : {}),
      ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
    };
  }

  /**
   * The worker knows best: it may have made more of a picture than the prompt shows. Once carried on, or told nothing, our own;
   * an estimate where there is none.
   */
  #promptTokens(): number {
    const counted = this.#prompt.promptTokens;
    const told = this.#workerUsage?.prompt_tokens ?? 0;
    return told > 0 && !(this.#isCarriedOn && counted > 0) ? told : counted || this.#promptEstimate;
  }

  #noteUsage(usage: CompletionUsage): void {
    const before = this.#workerUsage;
    this.#workerUsage =
      before?.prompt_tokens_details == null ? usage : { ...usage, prompt_tokens_details: before.prompt_tokens_details };
    const cached = usage.prompt_tokens_details?.cached_tokens;
    if (before === undefined && cached !== undefined) this.#meter.cachedTokens(cached);
  }

  /** What a text worker sends: a chunk, or the whole object. Its tokens are the worker's to count. */
  #body(output: EngineOutput): void {
    this.#hasBodies = true;
    if (this.#bodies === undefined) {
      if (output.finish_reason != null) this.#finished = Math.min(this.#choiceCount, this.#finished + 1);
      if (output.index != null) this.#meter.piece();
      this.#sink.body(output.body);
      return;
    }
    this.#say(this.#bodies, this.#bodies.read(output.body));
    const { usage } = this.#bodies;
    if (usage !== undefined && output.completion_usage == null) this.#noteUsage(usage);
    this.#noteTold(this.#bodies, output);
  }

  /** Text, or an end, that a worker sends in another form than the rest of its answer. */
  #besideBodies(bodies: WorkerBodies, output: EngineOutput): void {
    if (output.text != null && output.text !== '') this.#say(bodies, bodies.readText(output.index ?? 0, output.text));
    this.#noteTold(bodies, output);
  }

  #noteTold(bodies: WorkerBodies, { index, finish_reason: reason }: EngineOutput): void {
    if (reason != null) bodies.told(index ?? 0, toldReason(reason));
    this.#finished = bodies.finishedCount;
  }

  #say(bodies: WorkerBodies, chunks: readonly BodyChunk[]): void {
    if (bodies.lastText !== '') {
      this.#meter.piece();
      this.#bodyTokens += this.#bodyText.of(bodies.lastText);
    }
    for (const chunk of chunks) this.#sink.body(chunk);
  }

  #endBodies(bodies: WorkerBodies): void {
    for (const chunk of bodies.end()) {
      for (const { index, finish_reason } of chunk.choices) this.#noteReason(index, finish_reason);
      this.#sink.body(chunk);
    }
    this.#finished = bodies.choiceCount;
  }

  /** A worker that takes text has given fewer choices than were asked for: of one of them nobody would be told. */
  #missingChoices(): ServeError | undefined {
    const given = Math.max(
      this.#choices.length,
      this.#hasBodies ? (this.#bodies?.choiceCount ?? this.#choiceCount) : 0,
    );
    if (given >= this.#choiceCount || (given === 0 && !this.#hasBodies)) return undefined;
    if (given === 0) return workerError('BackendProtocol', 'the worker answered without a choice');
    const says = `This model gives ${given} of the ${this.#choiceCount} choices asked for`;
    return new ServeError('unsupported_parameter', says, { param: 'n' });
  }

  #delta(output: EngineOutput): void {
    const index = output.index ?? 0;
    const choice = this.#choice(index);
    if (choice.isFinished) return;
    const ids = output.token_ids ?? [];
    const logprobs = this.#logprobs === undefined ? undefined : namedLogprobs(output, this.#logprobs);
    const pushed = output.text == null ? choice.push(ids, 0, ids.length) : this.#pushText(choice, output.text, ids);
    if (choice.counted > 0) this.#meter.outputTokens(choice.counted);
    const text = this.#split(index, pushed, choice.counted);
    const shownIds = this.#showsIds ? ids.slice(0, choice.counted) : [];
    const shownLogprobs = logprobs?.slice(0, choice.counted);
    if (output.finish_reason != null && choice.matchedStop === undefined) {
      this.#engineFinish(index, choice, text, output, shownIds, shownLogprobs);
    } else if (choice.hasEnded) this.#finishHere(index, choice, text, shownIds, shownLogprobs);
    else if (shownLogprobs !== undefined || this.#showsIds) {
      this.#sink.delta({ choice: index, text, tokenIds: shownIds, ...(shownLogprobs && { logprobs: shownLogprobs }) });
    } else if (text !== '' || choice.counted > 0) this.#sink.text(index, text, choice.counted);
  }

  /** Text of the engine's own, as far as it fits: cut by its tokens, or by a share of it where they are not told. */
  #pushText(choice: ChoiceText, text: string, ids: readonly number[]): string {
    const count = this.#tokensOf(text, ids);
    const isTold = ids.length > 0;
    const room = isTold ? choice.room : Math.max(0, this.#estimateMax - choice.generated);
    if (count <= room) return choice.pushText(text, count);
    const fits =
      isTold && this.#loaded !== undefined
        ? this.#loaded.tokenizer.decode(ids.slice(0, room), { skipSpecialTokens: this.#skipsSpecialTokens })
        : text.slice(0, Math.floor((text.length * room) / count)).replace(/[\ud800-\udbff]$/, '');
    return choice.pushText(fits, room, true);
  }

  /** What counts the tokens of a text piece by piece may count more of them than the engine made. */
  get #estimateMax(): number {
    return 2 * this.#rules.maxTokens + ESTIMATE_SLACK_TOKENS;
  }

  #tokensOf(text: string, ids: readonly number[]): number {
    if (ids.length > 0 || text === '') return ids.length;
    this.#textTokens ??= new TextTokens(this.#loaded?.tokenizer);
    return this.#textTokens.of(text);
  }

  /** The text ended at a token or a string of it, or at its last token: nothing more is wanted from the worker for this choice. */
  #finishHere(
    index: number,
    choice: ChoiceText,
    text: string,
    ids: readonly number[],
    logprobs?: readonly TokenLogprob[],
  ): void {
    this.#hasLocalEnd = true;
    const rest = this.#split(index, choice.flush(), 0);
    this.#finish(index, choice, text + rest, choice.isOverrun ? 'length' : 'stop', ids, logprobs);
  }

  #engineFinish(
    index: number,
    choice: ChoiceText,
    text: string,
    output: EngineOutput,
    ids: readonly number[],
    logprobs: readonly TokenLogprob[] | undefined,
  ): void {
    const ownReason = choice.isOverrun ? 'length' : 'stop';
    const reason = choice.hasEnded ? ownReason : toldReason(output.finish_reason);
    const rest = this.#split(index, choice.flush(), 0);
    this.#finish(index, choice, text + rest, reason, ids, logprobs, output.stop_reason ?? undefined);
  }

  #finish(
    index: number,
    choice: ChoiceText,
    text: string,
    reason: FinishReason,
    tokenIds: readonly number[],
    logprobs?: readonly TokenLogprob[],
    engineStopReason?: string | number,
  ): void {
    choice.isFinished = true;
    this.#hasOverrun ||= choice.isOverrun;
    this.#finished++;
    const last = this.#endSplit(index, text, reason);
    this.#noteReason(index, last.reason);
    const stopReason = choice.stopReason ?? engineStopReason;
    this.#sink.finish({
      choice: index,
      text: last.text,
      tokenIds,
      reason: last.reason,
      ...(logprobs === undefined || logprobs.length === 0 ? {} : { logprobs }),
      ...(stopReason === undefined ? {} : { stopReason }),
    });
  }

  #noteReason(index: number, reason: unknown): void {
    if (this.#span !== undefined && typeof reason === 'string') this.#reasons[index] = reason;
  }

  /** The content of `text`; reasoning and tool calls in it have gone to the sink. */
  #split(index: number, text: string, tokenCount: number): string {
    const split = this.#splits[index];
    if (split === undefined) return text;
    const content = split.push(text);
    // Whole outputs are counted, so one that closes the reasoning counts as reasoning.
    if (split.isReasoning) this.#reasoningTokens += tokenCount;
    return content;
  }

  /** `text` is content already, apart from what the flush of the detokenizer released. */
  #endSplit(
    index: number,
    text: string,
    reason: FinishReason,
  ): { readonly text: string; readonly reason: FinishReason | null } {
    const split = this.#splits[index];
    if (split === undefined) return { text, reason };
    const end = split.end(reason);
    return { text: text + end.text, reason: end.reason };
  }

  #choice(index: number): ChoiceText {
    const known = this.#choices[index];
    if (known !== undefined) return known;
    if (index >= this.#choiceCount) {
      throw workerError('BackendProtocol', `output for choice ${index} of a request for ${this.#choiceCount}`);
    }
    // Choices open in order: those before this one exist even if the worker has not spoken of them yet.
    for (let open = this.#choices.length; open <= index; open++) {
      this.#choices.push(this.#openChoice());
      if (this.#plan !== undefined) this.#splits.push(new TextSplit(open, this.#plan, this.#sink));
    }
    return this.#choices[index] as ChoiceText;
  }

  #openChoice(): ChoiceText {
    const { input } = this.#prompt.request;
    const tail = input.kind === 'tokens' ? input.tokenIds.subarray(-PROMPT_TAIL) : [];
    const skipSpecialTokens = this.#skipsSpecialTokens;
    return new ChoiceText(
      this.#rules,
      this.#loaded?.tokenizer.createDetokenizer(tail, { skipSpecialTokens }) ?? NO_DETOKENIZER,
    );
  }
}

/** What bodies are read by; undefined for requests whose answers have no choices. */
function bodyTerms(request: GenerationRequest, maxTokens: number): BodyTerms | undefined {
  const { prompt, sampling, endpoint, id } = request;
  const isChat = prompt.kind === 'chat';
  if (!isChat && endpoint !== 'completions') return undefined;
  const key = requestKeyOf(id) ?? id.replaceAll(/[^a-z0-9]/gi, '');
  return {
    isChat,
    choicesMax: request.bodyChoicesMax ?? sampling.n ?? 1,
    maxTokens,
    toolNames: new Set(isChat ? prompt.tools?.map((tool) => tool.function.name) : []),
    // Texts are held to one call by their parser.
    callsMax: isChat && prompt.parallelToolCalls === false ? 1 : Number.POSITIVE_INFINITY,
    idOf: (choice, index) => `call_${key}_${choice}_${index}`,
  };
}

function rulesOf(request: GenerationRequest, prompt: Preprocessed, plan: SplitPlan | undefined): ChoiceRules {
  const { stop } = prompt.request;
  const hidden = new Set(stop.stop_token_ids_hidden);
  const visible = new Set(stop.stop_token_ids_visible);
  for (const id of plan?.visibleEndIds ?? []) if (hidden.delete(id)) visible.add(id);
  return {
    minTokens: stop.min_tokens ?? 0,
    maxTokens: stop.max_tokens ?? Number.POSITIVE_INFINITY,
    stopStrings: stop.stop ?? [],
    showsStopString: request.sampling.include_stop_str_in_output ?? false,
    hiddenIds: hidden,
    stopIds: new Set(stop.stop_token_ids),
    visibleIds: visible,
  };
}

function logprobStyle(
  request: GenerationRequest,
  loaded: LoadedModel | undefined,
  skipSpecialTokens: boolean,
): LogprobStyle | undefined {
  if (loaded === undefined || request.output.logprobs === undefined) return undefined;
  return {
    tokenizer: loaded.tokenizer,
    asIds: request.output.return_tokens_as_token_ids ?? false,
    skipSpecialTokens,
    alternatives: request.output.logprobs,
  };
}

function slice(ids: ArrayLike<number>, start: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => ids[start + at] as number);
}
