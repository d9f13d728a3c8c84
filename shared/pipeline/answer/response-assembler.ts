import type { Clock } from '../../clock/index.ts';
import { type ServeError, workerError } from '../../errors/index.ts';
import type {
  EngineOutput,
  FinishReason,
  GenerationRequest,
  GenerationSink,
  TokenLogprob,
  Usage,
} from '../../protocol/index.ts';
import type { RequestMeter, WorkerLabels } from '../../telemetry/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import { bodyTerms, logprobStyle, missingChoices, rulesOf } from './answer-terms.ts';
import { AnswerUsage } from './answer-usage.ts';
import { type BodyChunk, WorkerBodies } from './bodies/worker-bodies.ts';
import { type ChoiceRules, ChoiceText } from './choice-text.ts';
import { FinishReasons } from './finish-reasons.ts';
import { type SplitPlan, TextSplit } from './text-split.ts';
import { TextTokens } from './text-tokens.ts';
import { failureInFinish, type LogprobStyle, namedLogprobs, toldReason } from './worker-output.ts';

/** One output in this many is timed. Reading the clock costs more than some outputs do. */
const TIMED_EVERY = 8;
const NO_CLOCK: Pick<Clock, 'nowMs'> = { nowMs: () => 0 };

/** The detokenizer of a worker that sends text. */
const NO_DETOKENIZER = { push: () => '', flush: () => '' };
/** Prompt ids that prime the detokenizer. */
const PROMPT_TAIL = 6;
/**
 * Tokens added to the limit of estimated counts, because the error of a short answer's estimate may exceed its size.
 */
const ESTIMATE_SLACK_TOKENS = 64;

/**
 * Assembles the answer to one request from the output of any number of workers, and sends text and events to the sink.
 */
export class ResponseAssembler {
  readonly #sink: GenerationSink;
  readonly #meter: RequestMeter;
  readonly #prompt: Preprocessed;
  readonly #loaded: LoadedModel | undefined;
  readonly #rules: ChoiceRules;
  readonly #logprobs: LogprobStyle | undefined;
  readonly #showsIds: boolean;
  readonly #choices: ChoiceText[] = [];
  readonly #plan: SplitPlan | undefined;
  /** Splits by choice; empty if all text is content. */
  readonly #splits: TextSplit[] = [];
  readonly #skipsSpecialTokens: boolean;
  /** Reads workers' own bodies; undefined for answers without choices. */
  readonly #bodies: WorkerBodies | undefined;
  #reasoningTokens = 0;
  readonly #reasons: FinishReasons;
  readonly #choiceCount: number;
  #finished = 0;
  #hasLocalEnd = false;
  #hasOverrun = false;
  readonly #usage: AnswerUsage;
  /** Whether the worker answers in bodies of its own, whose tokens only the worker can count. */
  #hasBodies = false;
  /** Estimates the tokens of such bodies, for workers that do not count them. */
  readonly #bodyText = new TextTokens(undefined);
  #bodyTokens = 0;
  readonly #clock: Pick<Clock, 'nowMs'>;
  #pushes = 0;
  #pushedTokens = 0;
  #timedTokens = 0;
  #timedMs = 0;
  /** Estimates tokens; set once a worker has sent text without its tokens. */
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
    this.#reasons = new FinishReasons(request.trace.span);
    this.#meter = meter;
    this.#choiceCount = request.sampling.n ?? 1;
    this.#plan = plan;
    this.#skipsSpecialTokens = request.output.skip_special_tokens ?? plan?.keepsSpecialTokens !== true;
    this.#rules = rulesOf(request, prompt, plan);
    const terms = bodyTerms(request, this.#rules.maxTokens);
    this.#bodies = terms && new WorkerBodies(terms);
    this.#usage = new AnswerUsage(request, prompt.promptTokens, meter);
    this.#logprobs = logprobStyle(request, loaded, this.#skipsSpecialTokens);
    this.#showsIds = request.extraFields.includes('completion_token_ids');
  }

  /** Whether every choice has ended. */
  get isComplete(): boolean {
    return this.#finished >= this.#choiceCount;
  }

  /** Whether every choice has ended, at least one of them before the worker ended it. The worker can then stop. */
  get endsBeforeWorker(): boolean {
    return this.#hasLocalEnd && this.isComplete;
  }

  /** Whether a worker sent more tokens of a choice than the request allows. */
  get hasOverrun(): boolean {
    return this.#hasOverrun;
  }

  /** Tokens that became text here, and how many milliseconds this took, extrapolated from the timed part. */
  get detokenized(): { readonly tokens: number; readonly ms: number } {
    const share = this.#timedTokens === 0 ? 0 : this.#pushedTokens / this.#timedTokens;
    return { tokens: this.#pushedTokens, ms: this.#timedMs * share };
  }

  /** Tokens of the prompt as its worker has counted them; undefined if it has not. */
  get reportedPromptTokens(): number | undefined {
    return this.#usage.reportedPromptTokens;
  }

  /** Names the workers of the request to its meter. */
  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void {
    this.#meter.servedBy(prefill, decode);
  }

  /** Counts a move of the request. */
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
    if (isTimed) {
      this.#timedMs += this.#clock.nowMs() - startMs;
      this.#timedTokens += choice.counted;
    }
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

  /** Takes every output that is not plain tokens. Returns a failure that the worker reports inside its output. */
  output(output: EngineOutput): ServeError | undefined {
    const failure = failureInFinish(output.finish_reason);
    if (failure !== undefined) return failure;
    if (output.completion_usage != null) this.#usage.note(output.completion_usage);
    if (output.engine_data != null) this.#sink.engineData(output.engine_data);
    if (output.body !== undefined) this.#body(output);
    else if (this.#hasBodies && this.#bodies !== undefined) this.#besideBodies(this.#bodies, output);
    else this.#delta(output);
    return undefined;
  }

  /** Ends every open choice as cut at its length, because a request that has moved may have no token left. */
  finishAtLength(): void {
    for (let index = 0; index < this.#choiceCount; index++) {
      const choice = this.#choice(index);
      if (!choice.isFinished) this.#finish(index, choice, this.#split(index, choice.flush(), 0), 'length', []);
    }
  }

  /** Notes that another worker continues from the tokens so far, whose prompt is longer than the client's. */
  carriedOn(): void {
    this.#usage.carriedOn();
  }

  /** Ends the answer, because the worker's stream is complete. */
  end(): void {
    if (this.#hasBodies && this.#bodies !== undefined) this.#endBodies(this.#bodies);
    const missing = this.#loaded === undefined ? this.#missingChoices() : undefined;
    if (missing !== undefined) {
      this.#sink.fail(missing);
      return;
    }
    this.#reasons.tell();
    const usage = this.usage();
    this.#meter.promptTokens(usage.promptTokens); // ignored if the frontend has counted them
    if (this.#hasBodies && (this.#bodies !== undefined || this.#usage.isReported))
      this.#meter.piecesHold(usage.completionTokens);
    this.#sink.end(usage, this.#finished > 0);
  }

  /** Returns the usage for the client, as if the request had stayed at its first worker. */
  usage(): Usage {
    const counted = this.#choices.reduce((sum, choice) => sum + choice.generated, 0);
    const hasOwnTokens = this.#loaded !== undefined && this.#textTokens === undefined && !this.#hasBodies;
    return this.#usage.of({
      counted,
      isCountedHere: this.#hasOverrun || hasOwnTokens,
      bodyTokens: this.#bodyTokens,
      reasoningTokens: this.#plan?.reasoning === undefined ? undefined : this.#reasoningTokens,
    });
  }

  /** Takes a body of a worker that takes text: a chunk, or the whole object. Only the worker can count its tokens. */
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
    if (usage !== undefined && output.completion_usage == null) this.#usage.note(usage);
    this.#noteTold(this.#bodies, output);
  }

  /** Takes text, or an end, that a worker sends in another form than the rest of its answer. */
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
      for (const { index, finish_reason } of chunk.choices) this.#reasons.note(index, finish_reason);
      this.#sink.body(chunk);
    }
    this.#finished = bodies.choiceCount;
  }

  /** Returns the failure of a worker that takes text and gave fewer choices than the request has. */
  #missingChoices(): ServeError | undefined {
    const ofBodies = this.#hasBodies ? (this.#bodies?.choiceCount ?? this.#choiceCount) : 0;
    const given = Math.max(this.#choices.length, ofBodies);
    return given === 0 && !this.#hasBodies ? undefined : missingChoices(given, this.#choiceCount);
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

  /**
   * Takes text of the engine, cut to the choice's room: by its tokens, or by a share of the text if they are unknown.
   */
  #pushText(choice: ChoiceText, text: string, ids: readonly number[]): string {
    const count = this.#tokensOf(text, ids);
    const hasTokens = ids.length > 0;
    const room = hasTokens ? choice.room : Math.max(0, this.#estimateMax - choice.generated);
    if (count <= room) return choice.pushText(text, count);
    const fits =
      hasTokens && this.#loaded !== undefined
        ? this.#loaded.tokenizer.decode(ids.slice(0, room), { skipSpecialTokens: this.#skipsSpecialTokens })
        : text.slice(0, Math.floor((text.length * room) / count)).replace(/[\ud800-\udbff]$/, '');
    return choice.pushText(fits, room, true);
  }

  /** Limit for estimated tokens: counting a text piece by piece may give more tokens than the engine made. */
  get #estimateMax(): number {
    return 2 * this.#rules.maxTokens + ESTIMATE_SLACK_TOKENS;
  }

  #tokensOf(text: string, ids: readonly number[]): number {
    if (ids.length > 0 || text === '') return ids.length;
    this.#textTokens ??= new TextTokens(this.#loaded?.tokenizer);
    return this.#textTokens.of(text);
  }

  /** Ends a choice at a stop token, a stop string or its last token, before the worker has ended it. */
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
    this.#reasons.note(index, last.reason);
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

  /** Returns the content of `text`, and sends reasoning and tool calls in it to the sink. */
  #split(index: number, text: string, tokenCount: number): string {
    const split = this.#splits[index];
    if (split === undefined) return text;
    const content = split.push(text);
    // Whole outputs are counted, so one that closes the reasoning counts as reasoning.
    if (split.isReasoning) this.#reasoningTokens += tokenCount;
    return content;
  }

  /** Ends the split of a choice. @param text content, and what the flush of the detokenizer released */
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
    // Choices open in order: earlier ones exist even if the worker has not sent anything of them yet.
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

function slice(ids: ArrayLike<number>, start: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => ids[start + at] as number);
}
