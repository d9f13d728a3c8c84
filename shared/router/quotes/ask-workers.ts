import type { Clock, Random } from '../../clock/index.ts';
import { askOnce, type RequestPlane, type Transport } from '../../planes/request/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import { type RendezvousKey, seedOf, weightOf } from '../rendezvous.ts';
import type { RoutableWorker } from '../router.ts';
import { statorTerms, uncachedTokens, uncachedWeight } from '../scheduler/cost.ts';
import { Inhibition } from '../scheduler/eligibility.ts';
import { decodeClaimAnswer, decodeQuotes, encodeQuestion, type QuoteQuestion } from './claims.ts';

/** What a rank of a worker said that a prompt would find there. */
export interface RankQuote {
  readonly workerId: string;
  readonly dpRank: number;
  /** Leading prompt tokens that are cached. */
  readonly cachedTokens: number;
  /** Prompt tokens that are to be computed there before it, those of requests on their way among them. */
  readonly prefillTokens: number;
  /** KV blocks in use. */
  readonly activeBlocks: number;
}

/** Places that a request claims one after another; the last one is taken whatever comes. */
export const CLAIMS_MAX = 3;

/** A prompt that looks for a place. */
interface PlacedPrompt {
  /** Of its request. */
  readonly id: string;
  /** Decides where places are about equal: of its conversation, which then stays where it is, else of the request. */
  readonly draw: RendezvousKey;
  readonly tokens: number;
  readonly blockSizeTokens: number;
}

/** The cheapest of several. */
interface BestQuote {
  readonly quote: RankQuote;
  /** Prompt tokens that it would compute there. */
  readonly uncachedTokens: number;
  /** With more prompt tokens than that before it another one would be cheaper; infinite where there is no other. */
  readonly prefillTokensMax: number;
}

/**
 * Each conversation prefers some places to others by up to so many tokens, or by this part of what computing all of a prompt would cost:
 * so those that decide in one instant, on the same quotes, do not all decide alike. A good cache hit weighs more.
 */
const DRAW_TOKENS = 6000;
const DRAW_SHARE = 0.5;
const TIERS = { hostCacheHitWeight: 0, diskCacheHitWeight: 0 }; // counted by whoever quoted

/**
 * The quote to take: the cheapest by the cost model `stator`. A pure function of its arguments.
 * @param quotes at least one
 */
export function bestQuote(prompt: PlacedPrompt, quotes: readonly RankQuote[]): BestQuote {
  const costs = costsOf(prompt, quotes);
  let best = 0;
  for (let at = 1; at < quotes.length; at++) if ((costs[at] as number) < (costs[best] as number)) best = at;
  const next = costs.reduce(
    (least, cost, at) => (at === best ? least : Math.min(least, cost)),
    Number.POSITIVE_INFINITY,
  );
  const quote = quotes[best] as RankQuote;
  return {
    quote,
    uncachedTokens: uncachedTokens(prompt.tokens, quote.cachedTokens),
    prefillTokensMax: quote.prefillTokens + Math.floor(next - (costs[best] as number)),
  };
}

function costsOf(prompt: PlacedPrompt, quotes: readonly RankQuote[]): readonly number[] {
  const { draw, tokens: promptTokens, blockSizeTokens } = prompt;
  const busy = quotes.filter(({ prefillTokens }) => prefillTokens > 0).length;
  const weight = uncachedWeight(busy, quotes.length);
  const drawTokens = Math.min(DRAW_TOKENS, DRAW_SHARE * weight * promptTokens);
  return quotes.map(({ workerId, dpRank, cachedTokens, prefillTokens, activeBlocks }) => {
    const row = {
      prefillTokens,
      deviceBlocks: cachedTokens / blockSizeTokens,
      hostBlocks: 0,
      diskBlocks: 0,
      sharedBlocks: 0,
      activeBlocks,
      addedBlocks: 0,
      activeRequests: 0,
    };
    const facts = { blockSizeTokens, promptTokens };
    const { backlog, uncached, decode } = statorTerms(row, facts, TIERS, { weight, isOwn: true });
    const drawn = weightOf(draw, seedOf(`${workerId}/${dpRank}`)) / 2 ** 32;
    return backlog + uncached + decode + drawTokens * drawn;
  });
}

export interface WorkerAskerOptions<Worker extends RoutableWorker> {
  readonly plane: Pick<RequestPlane, 'call'>;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
  /** For all questions that one request asks. @default 15 */
  readonly timeoutMs?: number | undefined;
  /** Where a worker is asked, the same object for the same worker; undefined = it cannot be. */
  transportOf(worker: Worker): Transport | undefined;
  readonly metrics: AskMetrics;
}

/** A prompt with what it asks about. */
export interface AskedPrompt extends PlacedPrompt {
  /** Sequence hashes of its complete blocks, as pairs of halves. */
  readonly sequence: Uint32Array;
  /** The data-parallel rank that has to take it. @default any */
  readonly dpRank?: number | undefined;
}

/** Where a prompt is best put, as the workers say. */
export interface AskedPlace<Worker> {
  readonly worker: Worker;
  readonly dpRank: number;
  readonly cachedTokens: number;
}

interface AskLimits {
  readonly endMs: number;
  readonly signal: AbortSignal;
}

const ANY = Number.POSITIVE_INFINITY;
const TIMEOUT_MS = 15;
/** So many have to answer for their answers to be compared. */
const ANSWERS_MIN = 2;
/** A worker that did not answer is not asked for so long: nobody waits for it request after request. */
const SILENT_MS = 1000;

/**
 * Asks workers what a prompt would find there, and claims a place at the cheapest: at the time of the claim a worker may have
 * promised places to others, and then the claim is refused and goes to whoever is cheapest now.
 *
 *     quote? ──> all candidates at once ──answers──> claim at the cheapest ──held──> go there
 *                                                        ^────refused, twice────┘
 *
 * Who does not answer in time, or nonsense, is not compared; where fewer than two answer the caller decides by what it knows.
 */
export class WorkerAsker<Worker extends RoutableWorker> {
  readonly #options: WorkerAskerOptions<Worker>;
  readonly #silent: Inhibition;
  /** Nobody answered the request before. */
  #wasUnanswered = false;

  constructor(options: WorkerAskerOptions<Worker>) {
    this.#options = options;
    this.#silent = new Inhibition(options.clock, SILENT_MS);
  }

  /**
   * Resolves within the deadline, at once when `signal` aborts; never rejects.
   * @param workers those worth asking; a few, as each costs a question
   */
  async place(
    prompt: AskedPrompt,
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<AskedPlace<Worker> | undefined> {
    const { metrics, clock, timeoutMs = TIMEOUT_MS } = this.#options;
    const askable = workers.filter((worker) => this.#transportOf(worker) !== undefined);
    if (askable.length < ANSWERS_MIN) return undefined;
    const asked = askable.filter((worker) => !this.#silent.has(worker.id));
    const giveUp = new AbortController();
    const onAbort = (): void => giveUp.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true }); // once for all questions
    if (signal.aborted) onAbort();
    const limits = { endMs: clock.nowMs() + timeoutMs, signal: giveUp.signal };
    const chosen = asked.length < ANSWERS_MIN ? undefined : await this.#choose(prompt, asked, limits);
    signal.removeEventListener('abort', onAbort);
    if (chosen === undefined) {
      metrics.asked('unanswered');
      return undefined;
    }
    metrics.asked(chosen.isHeld ? 'held' : 'late');
    const { workerId, dpRank, cachedTokens } = chosen.quote;
    return { worker: asked.find(({ id }) => id === workerId) as Worker, dpRank, cachedTokens };
  }

  async #choose(
    prompt: AskedPrompt,
    asked: readonly Worker[],
    limits: AskLimits,
  ): Promise<{ readonly quote: RankQuote; readonly isHeld: boolean } | undefined> {
    const answers = await Promise.all(asked.map((worker) => this.#quotesOf(worker, prompt, limits)));
    const answered = answers.filter((quotes) => quotes.length > 0).length;
    if (!limits.signal.aborted)
      this.#noteLate(
        asked.filter((_, at) => answers[at]?.length === 0),
        answered,
      );
    return answered < ANSWERS_MIN ? undefined : this.#claimBest(prompt, asked, answers.flat(), limits);
  }

  /** When nobody has answered it may have been this process that stood still: that is held against them the second time. */
  #noteLate(late: readonly Worker[], answered: number): void {
    const isTheirs = answered > 0 || this.#wasUnanswered;
    this.#wasUnanswered = answered === 0;
    if (isTheirs) for (const { id } of late) this.#silent.add(id);
  }

  async #claimBest(
    prompt: AskedPrompt,
    asked: readonly Worker[],
    quotes: readonly RankQuote[],
    limits: AskLimits,
  ): Promise<{ readonly quote: RankQuote; readonly isHeld: boolean } | undefined> {
    let left = quotes;
    for (let claim = 1; left.length > 0; claim++) {
      const best = bestQuote(prompt, left);
      const { quote } = best;
      if (claim > CLAIMS_MAX || this.#options.clock.nowMs() >= limits.endMs) return { quote, isHeld: false };
      const worker = asked.find(({ id }) => id === quote.workerId) as Worker;
      const answer = await this.#claim(
        worker,
        prompt,
        claim < CLAIMS_MAX ? best : { ...best, prefillTokensMax: ANY },
        limits,
      );
      if (answer?.isHeld) return { quote, isHeld: true };
      left =
        answer === undefined
          ? left.filter(({ workerId }) => workerId !== quote.workerId)
          : left.map((each) => (each === quote ? { ...quote, prefillTokens: answer.prefillTokens } : each));
    }
    return undefined;
  }

  async #quotesOf(worker: Worker, prompt: AskedPrompt, limits: AskLimits): Promise<RankQuote[]> {
    const { sequence, blockSizeTokens, tokens } = prompt;
    const body = await this.#ask(worker, { kind: 'quote', sequence, blockSizeTokens }, limits);
    const ranks = this.#read(worker, body, decodeQuotes) ?? [];
    const { dataParallelStartRank: first, dataParallelSize: size } = worker;
    return ranks
      .filter(({ dpRank }) => (prompt.dpRank ?? dpRank) === dpRank && dpRank >= first && dpRank < first + size)
      .map((rank) => ({ ...rank, cachedTokens: Math.min(rank.cachedTokens, tokens), workerId: worker.id }));
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

  /** Body of the answer; undefined when there is none. */
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
      this.#silent.add(worker.id); // of another version: as good as silent, and counted as that
      return undefined;
    }
  }

  #transportOf(worker: Worker): Transport | undefined {
    return this.#options.transportOf(worker);
  }
}

/**
 * How a request that asked workers found its place. `held`: one promised it. `late`: by what they said, without a promise, as
 * time was over. `unanswered`: fewer than two answered.
 */
type AskOutcome = 'held' | 'late' | 'unanswered';

/** What a router that asks workers counts. */
export interface AskMetrics {
  asked(outcome: AskOutcome): void;
}

const OUTCOMES: readonly AskOutcome[] = ['held', 'late', 'unanswered'];

export function createAskMetrics(registry: MetricRegistry): AskMetrics {
  const asked = registry.counter(
    'stator_router_asked_total',
    'Requests for which workers were asked what they would cost there, by what came of it.',
    ['outcome'],
  );
  for (const outcome of OUTCOMES) asked.with(outcome);
  return { asked: (outcome) => asked.with(outcome).add() };
}
