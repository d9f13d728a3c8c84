import { type Random, seededRandom } from '../clock/index.ts';
import { type SharedTextOptions, SharedTexts } from './shared-texts.ts';
import { toWorkload, type Workload, type WorkloadRequest } from './workload.ts';

/**
 * Arrivals of requests: at even intervals, at random, several at once, or as turns of conversations that start at
 * random.
 */
export type WorkloadShape = 'steady' | 'poisson' | 'bursts' | 'sessions';

export interface SyntheticOptions {
  readonly shape: WorkloadShape;
  /** First turns; each is followed by `turnsPerSession - 1` more. */
  readonly sessions: number;
  readonly turnsPerSession: number;
  /** From the end of a turn to the next. */
  readonly interTurnDelayMs: number;
  /** Mean time between two first turns. */
  readonly arrivalIntervalMs: number;
  /** Requests that come together in `bursts`. */
  readonly burstSize: number;
  /** Mean new prompt tokens of a turn. A shared prefix is part of them; shared texts come before them. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Lengths are uniform in `mean * (1 - spread)` to `mean * (1 + spread)`. */
  readonly lengthSpread: number;
  /** Share of a first prompt that is a shared prefix. */
  readonly sharedPrefixRatio: number;
  /** Different shared prefixes; each session takes one at random. */
  readonly prefixGroups: number;
  /** Texts with which first prompts begin instead of a prefix of that share. @default none */
  readonly texts?: SharedTextOptions | undefined;
  /** Granularity of prefixes: the engine's block. */
  readonly segmentTokens: number;
  readonly seed: number;
  /** Workers of which each session names one at random. @default no request names one */
  readonly namedWorkers?: number;
}

/**
 * Makes a workload. The same options make the same workload. The prompt of a later turn is the previous one, its
 * answer, and new tokens; the answer counts as new to the caches, as in a trace.
 */
export function makeWorkload(options: SyntheticOptions): Workload {
  const random = seededRandom(options.seed);
  const writer = new SessionWriter(options, random);
  const requests: WorkloadRequest[] = [];
  let arrivalMs = 0;
  for (let session = 0; session < options.sessions; session++) {
    requests.push(...writer.write(session, arrivalMs));
    arrivalMs += pauseMs(options, session, random);
  }
  return toWorkload(requests, options.segmentTokens);
}

function pauseMs({ shape, arrivalIntervalMs, burstSize }: SyntheticOptions, session: number, random: Random): number {
  if (shape === 'steady') return arrivalIntervalMs;
  if (shape !== 'bursts') return exponential(arrivalIntervalMs, random);
  const isLastOfBurst = (session + 1) % burstSize === 0;
  return isLastOfBurst ? exponential(arrivalIntervalMs * burstSize, random) : 0;
}

function exponential(mean: number, random: Random): number {
  return -Math.log(1 - random.next()) * mean;
}

const NAMING = 0x6e61_6d65;

class SessionWriter {
  readonly #options: SyntheticOptions;
  readonly #random: Random;
  /** Chance of the workers that sessions name, so that prompts are the same with and without them. */
  readonly #naming: Random;
  readonly #prefixSegments: number;
  readonly #texts: SharedTexts | undefined;
  #nextId: number;

  constructor(options: SyntheticOptions, random: Random) {
    this.#options = options;
    this.#random = random;
    this.#naming = seededRandom(options.seed ^ NAMING);
    // Prefixes have the first ids: segment k of group g is g * segments + k.
    this.#prefixSegments = Math.floor((options.inputTokens * options.sharedPrefixRatio) / options.segmentTokens);
    this.#nextId = options.prefixGroups * this.#prefixSegments;
    const { texts, segmentTokens, seed } = options;
    this.#texts = texts && new SharedTexts(texts, segmentTokens, seed, () => this.#nextId++);
  }

  write(session: number, arrivalMs: number): readonly WorkloadRequest[] {
    const { turnsPerSession, outputTokens, interTurnDelayMs, namedWorkers } = this.#options;
    const turns: WorkloadRequest[] = [];
    const worker = namedWorkers === undefined ? undefined : this.#naming.below(namedWorkers);
    let known = this.#texts?.draw() ?? this.#prefix();
    let inputTokens = this.#texts === undefined ? 0 : known.length * this.#options.segmentTokens;
    for (let turn = 0; turn < turnsPerSession; turn++) {
      inputTokens += this.#length(this.#options.inputTokens);
      const segmentIds = this.#fill(known, inputTokens);
      const answerTokens = this.#length(outputTokens);
      turns.push({
        arrivalMs,
        inputTokens,
        outputTokens: answerTokens,
        segmentIds,
        sessionId: turnsPerSession > 1 ? String(session) : undefined,
        delayMs: turn === 0 ? 0 : interTurnDelayMs,
        worker,
      });
      known = segmentIds.slice(0, Math.floor(inputTokens / this.#options.segmentTokens));
      inputTokens += answerTokens;
    }
    return turns;
  }

  #prefix(): readonly number[] {
    const first = this.#random.below(this.#options.prefixGroups) * this.#prefixSegments;
    return Array.from({ length: this.#prefixSegments }, (_, at) => first + at);
  }

  /** The ids of a prompt: those known of its beginning, new ones after that. */
  #fill(known: readonly number[], inputTokens: number): readonly number[] {
    const count = Math.ceil(inputTokens / this.#options.segmentTokens);
    const ids = known.slice(0, count);
    while (ids.length < count) ids.push(this.#nextId++);
    return ids;
  }

  #length(mean: number): number {
    const { lengthSpread } = this.#options;
    return Math.max(1, Math.round(mean * (1 + lengthSpread * (2 * this.#random.next() - 1))));
  }
}
