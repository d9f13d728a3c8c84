import type { ChatMessage } from '../protocol/index.ts';
import { BoundedMap } from '../records/index.ts';
import type { HashedPrompt } from '../router/index.ts';
import { keyOfText, type RendezvousKey } from '../router/index.ts';

/** Keys of longer and longer beginnings of one prompt, from those that many prompts have to those that few have. */
export interface PromptLevels {
  readonly keys: readonly RendezvousKey[];
  /** Key of its conversation, if it is known without comparing prompts. */
  readonly conversation: RendezvousKey | undefined;
  readonly prompt: HashedPrompt;
}

/** Length of the first beginning, in tokens. Each further one is longer by the factor. */
const FIRST_TOKENS = 128;
const GROWTH = 1.25;

/**
 * Returns the levels of a prompt. Beginnings end at fixed depths, so that a growing conversation keeps its keys.
 *
 * @param conversation key that all turns of the conversation share. @default unknown
 */
export function promptLevels(
  prompt: HashedPrompt,
  blockSizeTokens: number,
  conversation?: RendezvousKey,
): PromptLevels {
  const { sequence } = prompt.hashes;
  const keys: RendezvousKey[] = [];
  const blocks = sequence.length >> 1;
  let depth = Math.max(1, Math.round(FIRST_TOKENS / Math.max(1, blockSizeTokens)));
  for (; depth <= blocks; depth = Math.max(depth + 1, Math.round(depth * GROWTH))) {
    keys.push(keyOfBlock(sequence, depth));
  }
  return { keys, conversation, prompt };
}

/**
 * Returns the key of everything up to the end of block `depth`, counted from 1: a sequence hash covers all blocks
 * before it.
 */
function keyOfBlock(sequence: Uint32Array, depth: number): RendezvousKey {
  return [sequence[2 * depth - 2] ?? 0, sequence[2 * depth - 1] ?? 0];
}

/**
 * Letters that are read at each end of a text. Two texts of one length that differ only in between get the same key.
 */
const END_LETTERS = 2048;
/** Bound of the values that are read of one message. Values deeper than `DEPTH_MAX` are ignored. */
const VALUES_MAX = 64;
const DEPTH_MAX = 4;
/** Bound of the messages before the first user message that are read. */
const MESSAGES_MAX = 8;

/**
 * Returns the key of a conversation by its beginning: all messages up to the user's first one, which every later turn
 * repeats. Undefined if there is no user message. It takes the same time for messages of any length.
 */
export function conversationKey(messages: readonly ChatMessage[]): RendezvousKey | undefined {
  const user = messages.findIndex(({ role }) => role === 'user');
  if (user === -1) return undefined;
  const said: string[] = [];
  for (const { role, content } of messages.slice(Math.max(0, user + 1 - MESSAGES_MAX), user + 1)) {
    said.push(role);
    collect(content, said, said.length + VALUES_MAX, 0);
  }
  return keyOfText(said.join('\n'));
}

/** Adds the texts of a message's content, with a sample of long ones. */
function collect(value: unknown, said: string[], countMax: number, depth: number): void {
  if (said.length >= countMax || depth > DEPTH_MAX) return;
  if (typeof value === 'string') said.push(sampleOf(value));
  else if (typeof value === 'number') said.push(`${value}`);
  else if (Array.isArray(value))
    for (const part of value.slice(0, VALUES_MAX)) collect(part, said, countMax, depth + 1);
  else if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) collect(part, said, countMax, depth + 1);
  }
}

function sampleOf(text: string): string {
  return text.length <= 2 * END_LETTERS
    ? text
    : `${text.length} ${text.slice(0, END_LETTERS)} ${text.slice(-END_LETTERS)}`;
}

/** End of a conversation when it was last seen. */
interface End {
  readonly blocks: number;
  readonly key: RendezvousKey;
  readonly tokens: number;
}

/** Counts of a key that prompts had. */
interface Seen {
  conversations: number;
  /** Ends of the latest prompts that have no deeper key. */
  readonly ends: End[];
}

const KEYS_MAX = 16_384;
const ENDS_MAX = 8;
/** Number of requests after which all counts are halved. */
const HALVED_AFTER = 256;
/** Count below which a key is forgotten. */
const FORGOTTEN_BELOW = 0.5;

/**
 * Measures which part of the traffic has which key, as one process sees it: its requests are a sample of all. It counts
 * conversations instead of turns, because a conversation has one request at a time. A prompt that continues an earlier
 * one belongs to the same conversation.
 */
export class PrefixDemand {
  readonly #seen = new BoundedMap<number, Seen>(KEYS_MAX); // the least recently used leaves first
  #requests = 0;
  #conversations = 0;

  /** Number of requests seen. Older ones count less. */
  get requests(): number {
    return this.#requests;
  }

  /** Number of conversations seen. Older ones count less. */
  get conversations(): number {
    return this.#conversations;
  }

  /** Returns the number of conversations with the key, except the last one that was noted. */
  othersWith(key: RendezvousKey): number {
    return Math.max(0, (this.#seen.get(numberOf(key))?.conversations ?? 0) - 1);
  }

  /** Counts a request. */
  note(levels: PromptLevels): void {
    this.#requests++;
    const isNew = !this.#goesOn(levels);
    if (isNew) this.#conversations++;
    let deepest: Seen | undefined;
    for (const key of levels.keys) deepest = this.#count(key, isNew);
    if (levels.conversation !== undefined) this.#count(levels.conversation, isNew);
    if (deepest !== undefined) {
      deepest.ends.unshift(endOf(levels));
      deepest.ends.length = Math.min(deepest.ends.length, ENDS_MAX);
    }
    this.#forget();
  }

  #count(key: RendezvousKey, isNew: boolean): Seen {
    const number = numberOf(key);
    const known = this.#seen.get(number);
    const seen = known ?? { conversations: 0, ends: [] };
    if (isNew || known === undefined) seen.conversations++;
    this.#seen.set(number, seen);
    return seen;
  }

  /** Whether the prompt is longer than an earlier one and begins with it. Removes the end of the earlier one. */
  #goesOn({ keys, prompt }: PromptLevels): boolean {
    const { sequence } = prompt.hashes;
    for (let at = keys.length - 1; at >= 0; at--) {
      const ends = this.#seen.get(numberOf(keys[at] as RendezvousKey))?.ends ?? [];
      const found = ends.findIndex(
        ({ tokens, blocks, key }) => tokens < prompt.tokens && isSame(keyOfBlock(sequence, blocks), key),
      );
      if (found === -1) continue;
      ends.splice(found, 1);
      return true;
    }
    return false;
  }

  #forget(): void {
    if (this.#requests < HALVED_AFTER) return;
    this.#requests /= 2;
    this.#conversations /= 2;
    for (const [number, seen] of this.#seen) {
      seen.conversations /= 2;
      if (seen.conversations < FORGOTTEN_BELOW) this.#seen.delete(number);
    }
  }
}

function endOf({ prompt }: PromptLevels): End {
  const blocks = prompt.hashes.sequence.length >> 1;
  return { blocks, key: keyOfBlock(prompt.hashes.sequence, blocks), tokens: prompt.tokens };
}

function isSame([low, high]: RendezvousKey, [otherLow, otherHigh]: RendezvousKey): boolean {
  return low === otherLow && high === otherHigh;
}

/** Returns 53 bits of a key, because maps of numbers are twice as fast as maps of texts. */
function numberOf([low, high]: RendezvousKey): number {
  return (high & 0x1f_ffff) * 2 ** 32 + low;
}
