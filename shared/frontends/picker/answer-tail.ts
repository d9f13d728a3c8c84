import type { Usage } from '../../protocol/index.ts';

/** Bytes at the end of an answer that may have its usage. It is in the last event of a stream, or in its last field. */
const TAIL_BYTES = 8 * 1024;
const ROOM_BYTES_MIN = 512;
const USAGE = '"usage"';
/** Characters between the name of a field and its value. */
const TO_OBJECT = /\s{0,8}:\s{0,8}(?=\{)/y;

/** Keeps the end of an answer, and reads the usage from it. */
export class AnswerTail {
  #room = Buffer.alloc(0);
  #filled = 0;

  add(chunk: Uint8Array): void {
    const part = chunk.length > TAIL_BYTES ? chunk.subarray(chunk.length - TAIL_BYTES) : chunk;
    if (part.length > this.#room.length - this.#filled) this.#makeRoom(part.length);
    this.#room.set(part, this.#filled);
    this.#filled += part.length;
  }

  /** Makes room for a part. Room for two tails means that each byte is moved once. */
  #makeRoom(bytes: number): void {
    const kept = this.#room.subarray(Math.max(0, this.#filled - TAIL_BYTES), this.#filled);
    const wanted = Math.max(ROOM_BYTES_MIN, 2 * (kept.length + bytes));
    const room = Buffer.allocUnsafe(Math.min(wanted, 2 * TAIL_BYTES));
    room.set(kept);
    this.#room = room;
    this.#filled = kept.length;
  }

  /**
   * Returns the usage that the answer reports, in OpenAI's or Anthropic's names; undefined if it has none.
   * @param promptTokens prompt tokens of an answer that reports only its own
   */
  usage(promptTokens: number): Usage | undefined {
    const text = this.#room.toString('utf8', 0, this.#filled);
    for (let at = text.lastIndexOf(USAGE); at >= 0; at = at === 0 ? -1 : text.lastIndexOf(USAGE, at - 1)) {
      TO_OBJECT.lastIndex = at + USAGE.length;
      if (TO_OBJECT.test(text)) return readUsage(objectAt(text, TO_OBJECT.lastIndex), promptTokens);
    }
    return undefined;
  }
}

/** Returns the JSON object that begins at `start`; undefined if it does not end. */
function objectAt(text: string, start: number): unknown {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') depth++;
    if (text[at] === '}' && --depth === 0) return parsed(text.slice(start, at + 1));
  }
  return undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the answer is no JSON, so it reports no usage
  }
}

function readUsage(object: unknown, promptTokens: number): Usage | undefined {
  if (typeof object !== 'object' || object === null) return undefined;
  const fields = object as Readonly<Record<string, unknown>>;
  const completionTokens = countOf(fields.completion_tokens ?? fields.output_tokens);
  const prompt = countOf(fields.prompt_tokens ?? fields.input_tokens) ?? promptTokens;
  const details = (fields.prompt_tokens_details ?? fields.input_tokens_details) as { cached_tokens?: unknown } | null;
  const cachedTokens = countOf(details?.cached_tokens ?? fields.cache_read_input_tokens);
  return {
    promptTokens: prompt,
    completionTokens: completionTokens ?? 0,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
  };
}

function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
