import { faultInAnswer, isFault, workerError } from '../../../errors/index.ts';
import { type CompletionUsage, type FinishReason, readUsage } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import { BodyChoice, type ChoiceTerms, type ChunkChoice } from './body-choice.ts';

/** Terms by which the bodies of one answer are read. */
export interface BodyTerms extends ChoiceTerms {
  /** Number of choices with which the worker may answer. */
  readonly choicesMax: number;
  /** Tokens at which a choice ends; infinite if no limit is known. */
  readonly maxTokens: number;
}

/** A chunk in the published shape. The dialect's sink gives it its id, model, time and kind. */
export interface BodyChunk {
  readonly choices: readonly ChunkChoice[];
  /** Usage of the answer so far, if the worker sends usage with every chunk. */
  readonly usage?: CompletionUsage;
  readonly [own: string]: unknown;
}

/** Keys that this file reads or other code fills in. Every other key is the worker's own, and is passed on. */
const READ_KEYS: ReadonlySet<string> = new Set([
  'id',
  'object',
  'created',
  'choices',
  'usage',
  'x_groq',
  'error',
  'message',
  'detail',
  'type',
]);
const TIERS: ReadonlySet<unknown> = new Set(['auto', 'default', 'flex', 'scale', 'priority']);

/**
 * Reads the bodies of a worker that got the client's body unchanged, and returns chunks in the published shape. The
 * worker may send chunks or whole objects, of chats or of completions. The last piece of a choice waits until the
 * answer ends, because some workers continue after an end, or send it twice.
 */
export class WorkerBodies {
  readonly #terms: BodyTerms;
  readonly #choices: BodyChoice[] = [];
  /** Pieces that end their choice. */
  #held: BodyChunk[] = [];
  /** Other fields of chunks without choices. */
  #own: UnknownRecord = {};
  #usage: CompletionUsage | undefined;
  /** Text of the last body, whose tokens the caller counts. */
  lastText = '';

  constructor(terms: BodyTerms) {
    this.#terms = terms;
  }

  /** Usage that the worker has reported. */
  get usage(): CompletionUsage | undefined {
    return this.#usage;
  }

  /** Choices that have begun. */
  get choiceCount(): number {
    return this.#choices.length;
  }

  /** Choices for which the worker has sent a finish reason. */
  get finishedCount(): number {
    return this.#choices.filter(({ isFinished }) => isFinished).length;
  }

  /**
   * Returns the chunks for the client.
   * @throws ServeError for a body that reports a failure, or that does not fit the request
   */
  read(body: unknown): readonly BodyChunk[] {
    this.lastText = '';
    if (!isRecord(body)) return [];
    if (isFault(body)) throw faultInAnswer(body);
    const usage = readUsage(body);
    if (usage !== undefined) this.#noteUsage(usage);
    const own = ownOf(body);
    const choices = Array.isArray(body.choices) ? (body.choices as readonly unknown[]) : [];
    const { choicesMax } = this.#terms;
    if (choices.length > choicesMax) {
      throw workerError('BackendProtocol', `${choices.length} choices of ${choicesMax} asked for`);
    }
    const out: BodyChunk[] = [];
    const now: ChunkChoice[] = [];
    const last: ChunkChoice[] = [];
    for (const [at, choice] of choices.entries()) {
      if (isRecord(choice)) this.#readChoice(choice, at, out, now, last);
    }
    if (now.length + last.length === 0) {
      Object.assign(this.#own, own);
      return out;
    }
    const chunk = { ...this.#own, ...own, ...(usage === undefined ? {} : { usage }) };
    this.#own = {};
    if (now.length > 0) out.push({ ...chunk, choices: now });
    if (last.length > 0) this.#held.push({ ...chunk, choices: last });
    return out;
  }

  /** Takes text that the worker sends between its bodies. */
  readText(index: number, text: string): readonly BodyChunk[] {
    return this.read({ choices: [this.#terms.isChat ? { index, delta: { content: text } } : { index, text }] });
  }

  /** Takes a finish reason that the worker sends outside of its bodies. */
  told(index: number, reason: FinishReason): void {
    if (index < this.#terms.choicesMax) this.#at(index).told(reason);
  }

  /** Ends the answer. Returns the last chunks. After them, every choice has ended exactly once. */
  end(): readonly BodyChunk[] {
    const isAtLimit =
      (this.#usage?.completion_tokens ?? 0) >= this.#terms.maxTokens * Math.max(1, this.#choices.length);
    const out: BodyChunk[] = [];
    const ended = new Set<number>();
    for (const { choices, ...more } of this.#held.splice(0)) {
      const last = choices.map((choice) => {
        ended.add(choice.index);
        return joined(choice, this.#at(choice.index).end(isAtLimit));
      });
      out.push({ ...more, choices: last });
    }
    for (const choice of this.#choices) {
      if (!ended.has(choice.index)) out.push({ ...this.#own, choices: [choice.end(isAtLimit)] });
    }
    return out;
  }

  #readChoice(choice: UnknownRecord, at: number, out: BodyChunk[], now: ChunkChoice[], last: ChunkChoice[]): void {
    if (isRecord(choice.error) && isFault(choice)) throw faultInAnswer({ error: choice.error });
    const state = this.#at(placeOf(choice.index, at, this.#terms.choicesMax));
    const said = state.read(choice);
    if (said === undefined) return;
    this.lastText += state.lastText;
    const held = this.#unhold(state.index);
    if (held !== undefined) out.push(held);
    if (state.isFinished) last.push(said);
    else now.push(said);
  }

  /** Takes the kept piece of a choice that continues. */
  #unhold(index: number): BodyChunk | undefined {
    for (const [at, { choices, ...more }] of this.#held.entries()) {
      const kept = choices.find((choice) => choice.index === index);
      if (kept === undefined) continue;
      const others = choices.filter((choice) => choice !== kept);
      this.#held.splice(at, 1, ...(others.length === 0 ? [] : [{ ...more, choices: others }]));
      return { ...more, choices: [kept] };
    }
    return undefined;
  }

  #at(index: number): BodyChoice {
    let choice = this.#choices.find((known) => known.index === index);
    if (choice === undefined) {
      choice = new BodyChoice(index, this.#terms);
      this.#choices.push(choice);
    }
    return choice;
  }

  /** Takes reported usage. Later figures replace earlier ones; missing figures stay. */
  #noteUsage(usage: CompletionUsage): void {
    const before = this.#usage;
    const prompt_tokens = usage.prompt_tokens || (before?.prompt_tokens ?? 0);
    const completion_tokens = usage.completion_tokens || (before?.completion_tokens ?? 0);
    this.#usage = {
      ...before,
      ...usage,
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
    };
  }
}

/** @throws ServeError `bad_worker_response` for a choice beyond those of the request */
function placeOf(told: unknown, at: number, count: number): number {
  if (told === undefined || told === null) return at;
  const index = typeof told === 'string' && told !== '' ? Number(told) : told;
  if (Number.isInteger(index) && (index as number) >= 0 && (index as number) < count) return index as number;
  throw workerError('BackendProtocol', `the index of a choice is not a number from 0 to ${count - 1}`);
}

/** Returns the fields of the whole answer: the worker's own, and published ones with a valid value. */
function ownOf(body: UnknownRecord): UnknownRecord {
  const own: Record<string, unknown> = {};
  for (const key in body) {
    const value = body[key];
    if (value === null || value === undefined || READ_KEYS.has(key)) continue;
    if ((key === 'system_fingerprint' || key === 'model') && typeof value !== 'string') continue;
    if (key === 'service_tier' && !TIERS.has(value)) continue;
    own[key] = value;
  }
  return own;
}

/** Returns the kept piece of a choice with its end. */
function joined(kept: ChunkChoice, end: ChunkChoice): ChunkChoice {
  const { finish_reason } = end;
  const delta = isRecord(kept.delta) && isRecord(end.delta) ? { delta: joinedDelta(kept.delta, end.delta) } : {};
  return { ...kept, ...delta, finish_reason };
}

function joinedDelta(kept: UnknownRecord, end: UnknownRecord): UnknownRecord {
  const calls = [kept.tool_calls, end.tool_calls].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  const content = [kept.content, end.content].filter((text) => typeof text === 'string').join('');
  return {
    ...kept,
    ...end,
    ...(content === '' ? {} : { content }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}
