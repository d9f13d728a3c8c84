import type { Clock, Random } from '../../clock/index.ts';
import { afterSocketsAreRead } from '../../concurrency/index.ts';
import { askOnce, type RequestPlane, type Transport } from '../../planes/index.ts';
import type { RoutableWorker } from '../../router/index.ts';
import { hasRank } from '../../router/index.ts';
import { Inhibition } from '../../scheduler/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import { decodeClaimAnswer, decodeQuotes, encodeQuestion, type HoldTerms, type QuoteQuestion } from './claims.ts';
import { type BestQuote, bestQuote, CLAIMS_MAX, type PlacedPrompt, type RankQuote, termsOf } from './weigh-quotes.ts';

export interface WorkerAskerOptions<Worker extends RoutableWorker> {
  readonly plane: Pick<RequestPlane, 'call'>;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
  /** Deadline of all questions of one request. @default 50 */
  readonly timeoutMs?: number | undefined;
  /** Returns how to reach a worker, the same object for the same worker; undefined = it cannot be asked. */
  transportOf(worker: Worker): Transport | undefined;
  readonly metrics: AskMetrics;
}

/** A prompt and the parts of it that a question contains. */
export interface AskedPrompt extends PlacedPrompt {
  /** Sequence hashes of its complete blocks, as pairs of halves. */
  readonly sequence: Uint32Array;
  /** Data-parallel rank that must take it. @default any */
  readonly dpRank?: number | undefined;
}

/** Best place for a prompt, according to the workers. */
export interface AskedPlace<Worker> {
  readonly worker: Worker;
  readonly dpRank: number;
  readonly cachedTokens: number;
}

interface AskLimits {
  readonly endMs: number;
  readonly signal: AbortSignal;
}

/** Choice for a request, and the outcome of the questions. */
interface Chosen {
  readonly quote: RankQuote;
  readonly outcome: Exclude<AskOutcome, 'unanswered'>;
}

/** Answer of the worker that hashing names. */
interface HomeAnswer {
  readonly quotes: readonly RankQuote[];
  /** Rank where it holds a place. */
  readonly held?: RankQuote | undefined;
}

const NOT_ASKED: Promise<HomeAnswer> = Promise.resolve({ quotes: [] });
const ANY = Number.POSITIVE_INFINITY;
const TIMEOUT_MS = 50;
/** Share of its time for which a request waits for the worker that hashing names. Then it also asks others. */
const FIRST_SHARE = 0.5;
/** Number of answers that a comparison needs. */
const ANSWERS_MIN = 2;
/** Time for which a worker that did not answer is not asked, so that requests do not wait for it one after another. */
const SILENT_MS = 1000;
/** Bound of the workers recorded as late. */
const LATE_MAX = 4096;

/**
 * Asks workers for quotes of a prompt, and claims a place. It first asks the worker that hashing names. If that one has
 * little to compute for the prompt, its answer promises a place, and most requests need no other. Otherwise it asks the
 * others, and claims a place at the cheapest of all. By then that worker may have promised places to others. It then
 * refuses the claim, and the next claim goes to the worker that is cheapest now.
 *
 *     hold? ──> the one that hashing names ──held──> go there
 *                    └──answer──> quote? ──> the others at once ──answers──> claim at the cheapest ──held──> go there
 *                                                                                 ^────refused, twice────┘
 *
 * A late or invalid answer is not compared. If fewer than two workers answer, the caller decides without them.
 */
export class WorkerAsker<Worker extends RoutableWorker> {
  readonly #options: WorkerAskerOptions<Worker>;
  readonly #silent: Inhibition;
  /** Time since which each worker that has not answered since was late. */
  readonly #lateSinceMs = new Map<string, number>();

  constructor(options: WorkerAskerOptions<Worker>) {
    this.#options = options;
    this.#silent = new Inhibition(options.clock, SILENT_MS);
  }

  /**
   * Returns the place. Resolves within the deadline, at once if `signal` aborts. Never rejects.
   * @param workers those worth asking, with the one of `prompt.homeId` among them. They should be few, because each
   * costs a question
   */
  async place(
    prompt: AskedPrompt,
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<AskedPlace<Worker> | undefined> {
    const { metrics, clock } = this.#options;
    const askable = workers.filter((worker) => this.#transportOf(worker) !== undefined);
    if (askable.length < ANSWERS_MIN) return undefined;
    const asked = askable.filter((worker) => !this.#silent.has(worker.id));
    const giveUp = new AbortController();
    const onAbort = (): void => giveUp.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true }); // one listener for all questions
    if (signal.aborted) onAbort();
    const limits = { endMs: clock.nowMs() + this.#timeoutMs, signal: giveUp.signal };
    const chosen = asked.length < ANSWERS_MIN ? undefined : await this.#choose(prompt, asked, limits);
    signal.removeEventListener('abort', onAbort);
    metrics.asked(chosen?.outcome ?? 'unanswered');
    if (chosen === undefined) return undefined;
    const { workerId, dpRank, cachedTokens } = chosen.quote;
    return { worker: asked.find(({ id }) => id === workerId) as Worker, dpRank, cachedTokens };
  }

  async #choose(prompt: AskedPrompt, asked: readonly Worker[], limits: AskLimits): Promise<Chosen | undefined> {
    const home = asked.find(({ id }) => id === prompt.homeId);
    const asking = home === undefined ? NOT_ASKED : this.#askHome(prompt, home, limits);
    const early = await this.#within(FIRST_SHARE * this.#timeoutMs, asking);
    if (early?.held !== undefined) return { quote: early.held, outcome: 'home' };
    const others = asked.filter((worker) => worker !== home);
    const answers = await Promise.all(others.map((worker) => this.#quotesOf(worker, prompt, limits)));
    const first = await asking; // a slow worker may have answered meanwhile; its answer counts
    if (first.held !== undefined) return { quote: first.held, outcome: 'home' };
    const quotes = [...first.quotes, ...answers.flat()];
    const answered = new Set(quotes.map(({ workerId }) => workerId));
    if (!limits.signal.aborted) this.#noteAnswers(asked, answered);
    return answered.size < ANSWERS_MIN ? undefined : this.#claimBest(prompt, asked, quotes, limits);
  }

  /** Asks the worker that hashing names. Returns its answer and the place that it holds. */
  async #askHome(prompt: AskedPrompt, home: Worker, limits: AskLimits): Promise<HomeAnswer> {
    const { quotes, heldAt } = await this.#answerOf(home, prompt, limits, termsOf(prompt, prompt.dpRank));
    const held = quotes.find(({ dpRank }) => dpRank === heldAt);
    if (held !== undefined) this.#lateSinceMs.delete(home.id);
    return { quotes, held };
  }

  /** Returns the result of `answer`; undefined if it takes longer. */
  #within<T>(ms: number, answer: Promise<T>): Promise<T | undefined> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const timer = afterSocketsAreRead(clock, ms, () => resolve(undefined));
      void answer.then((first) => {
        timer.cancel();
        resolve(first);
      });
    });
  }

  /**
   * Notes which workers answered. A worker is silent once it has not answered for as long as a request may ask. A
   * single late answer is not enough: the worker may be busy, or this process may have paused.
   */
  #noteAnswers(asked: readonly Worker[], answered: ReadonlySet<string>): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#lateSinceMs.size > LATE_MAX) this.#lateSinceMs.clear();
    for (const { id } of asked) {
      const sinceMs = this.#lateSinceMs.get(id);
      if (answered.has(id)) this.#lateSinceMs.delete(id);
      else if (sinceMs === undefined) this.#lateSinceMs.set(id, nowMs);
      else if (nowMs - sinceMs >= this.#timeoutMs) this.#silent.add(id);
    }
  }

  async #claimBest(
    prompt: AskedPrompt,
    asked: readonly Worker[],
    quotes: readonly RankQuote[],
    limits: AskLimits,
  ): Promise<Chosen | undefined> {
    let left = quotes;
    for (let claim = 1; left.length > 0; claim++) {
      const best = bestQuote(prompt, left);
      const { quote } = best;
      if (claim > CLAIMS_MAX || this.#options.clock.nowMs() >= limits.endMs) return { quote, outcome: 'late' };
      const worker = asked.find(({ id }) => id === quote.workerId) as Worker;
      const answer = await this.#claim(
        worker,
        prompt,
        claim < CLAIMS_MAX ? best : { ...best, prefillTokensMax: ANY },
        limits,
      );
      if (answer?.isHeld) return { quote, outcome: 'held' };
      left =
        answer === undefined
          ? left.filter(({ workerId }) => workerId !== quote.workerId)
          : left.map((each) => (each === quote ? { ...quote, prefillTokens: answer.prefillTokens } : each));
    }
    return undefined;
  }

  async #quotesOf(worker: Worker, prompt: AskedPrompt, limits: AskLimits): Promise<readonly RankQuote[]> {
    return (await this.#answerOf(worker, prompt, limits)).quotes;
  }

  async #answerOf(
    worker: Worker,
    { sequence, blockSizeTokens, tokens, dpRank: asked }: AskedPrompt,
    limits: AskLimits,
    hold?: HoldTerms,
  ): Promise<{ readonly quotes: readonly RankQuote[]; readonly heldAt: number | undefined }> {
    const body = await this.#ask(worker, { kind: 'quote', sequence, blockSizeTokens, hold }, limits);
    const { ranks, heldAt } = this.#read(worker, body, decodeQuotes) ?? { ranks: [] };
    const quotes = ranks
      .filter(({ dpRank }) => (asked ?? dpRank) === dpRank && hasRank(worker, dpRank))
      .map((rank) => ({ ...rank, cachedTokens: Math.min(rank.cachedTokens, tokens), workerId: worker.id }));
    return { quotes, heldAt };
  }

  async #claim(
    worker: Worker,
    { id }: AskedPrompt,
    { quote: { dpRank }, uncachedTokens: tokens, prefillTokensMax }: BestQuote,
    limits: AskLimits,
  ): Promise<ReturnType<typeof decodeClaimAnswer> | undefined> {
    const claim = { id, dpRank, tokens, prefillTokensMax };
    return this.#read(worker, await this.#ask(worker, { kind: 'claim', claim }, limits), decodeClaimAnswer);
  }

  /** Returns the body of the answer; undefined if there is none. */
  async #ask(worker: Worker, question: QuoteQuestion, { endMs, signal }: AskLimits): Promise<unknown> {
    const { plane, clock, random } = this.#options;
    const transport = this.#transportOf(worker) as Transport;
    const timeoutMs = Math.max(0, endMs - clock.nowMs());
    const request = { id: random.uuid(), headers: {}, deadlineMs: timeoutMs, ...encodeQuestion(question) };
    const answer = await askOnce(plane, transport, request, { clock, timeoutMs, signal });
    if (answer.kind === 'answered') return answer.output?.body ?? null;
    const isLate = clock.nowMs() >= endMs;
    if (!(signal.aborted || isLate)) this.#silent.add(worker.id);
    return undefined;
  }

  #read<T>(worker: Worker, body: unknown, decode: (body: unknown) => T): T | undefined {
    if (body === undefined) return undefined;
    try {
      return decode(body);
    } catch {
      this.#silent.add(worker.id); // another version counts as silent
      return undefined;
    }
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? TIMEOUT_MS;
  }

  #transportOf(worker: Worker): Transport | undefined {
    return this.#options.transportOf(worker);
  }
}

/**
 * How a request that asked workers found its place. `home`: the first worker promised it. `held`: the cheapest of
 * several did. `late`: by the answers, without a promise, because time was over. `unanswered`: fewer than two answered.
 */
type AskOutcome = 'home' | 'held' | 'late' | 'unanswered';

/** Metrics of a router that asks workers. */
export interface AskMetrics {
  asked(outcome: AskOutcome): void;
}

const OUTCOMES: readonly AskOutcome[] = ['home', 'held', 'late', 'unanswered'];

export function createAskMetrics(registry: MetricRegistry): AskMetrics {
  const asked = registry.counter(
    'stator_router_asked_total',
    'Requests for which workers were asked for quotes, by outcome.',
    'outcome',
  );
  for (const outcome of OUTCOMES) asked.with(outcome);
  return { asked: (outcome) => asked.with(outcome).add() };
}
