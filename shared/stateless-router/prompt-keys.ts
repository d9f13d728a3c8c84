import type { ChatMessage } from '../protocol/index.ts';
import { BoundedMap } from '../records/index.ts';
import type { HashedPrompt } from '../router/index.ts';
import { keyOfText, type RendezvousKey } from '../router/index.ts';

/** What one prompt has in common with others, from what many have to what few have: longer and longer beginnings. */
export interface PromptLevels {
  readonly keys: readonly RendezvousKey[];
  /** Of its conversation, where that is known without looking at others. */
  readonly conversation: RendezvousKey | undefined;
  readonly prompt: HashedPrompt;
}

/** The first beginning that is looked at, in tokens; each further one is longer by the factor. */
const FIRST_TOKENS = 128;
const GROWTH = 1.25;

/**
 * The levels of a prompt. Beginnings end at fixed depths, so that a conversation keeps those that it has when it grows.
 *
 * @param conversation the same at all its turns. @default not known
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

/** Key of everything up to the end of block `depth`, counted from 1: a sequence hash covers all blocks before it. */
function keyOfBlock(sequence: Uint32Array, depth: number): RendezvousKey {
  return [sequence[2 * depth - 2] ?? 0, sequence[2 * depth - 1] ?? 0];
}

/** Letters that are read of each end of a text: two that differ only between them, at one length, are taken for one. */
const END_LETTERS = 2048;
/** Values that are read of one message; deeper ones than `DEPTH_MAX` are not. */
const VALUES_MAX = 64;
const DEPTH_MAX = 4;
/** Messages before the first of the user that are read. */
const MESSAGES_MAX = 8;

/**
 * Key of a conversation by how it began: all up to the user's first message, which every later turn repeats. Undefined
 * where no user has said anything. It takes the same time for messages of any length.
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

/** Adds the texts of a message's content, a sample of the long ones. */
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

/** Where a conversation ended when it was seen last. */
interface End {
  readonly blocks: number;
  readonly key: RendezvousKey;
  readonly tokens: number;
}

/** A key that prompts were seen with. */
interface Seen {
  conversations: number;
  /** Of the latest ones that have no deeper key. */
  readonly ends: End[];
}

const KEYS_MAX = 16_384;
const ENDS_MAX = 8;
/** Requests after which all that was counted counts half. */
const HALVED_AFTER = 256;
/** Less than this is left of one that was counted long ago. */
const FORGOTTEN_BELOW = 0.5;

/**
 * What part of the traffic has which key, as far as one process sees: its requests are a sample of all. Conversations
 * are counted and not their turns, for one has a request under way at a time; a prompt that goes on from one seen
 * before is the same conversation.
 */
export class PrefixDemand {
  readonly #seen = new BoundedMap<number, Seen>(KEYS_MAX); // the one used longest ago first
  #requests = 0;
  #conversations = 0;

  /** Requests seen, older ones counting less. */
  get requests(): number {
    return this.#requests;
  }

  /** Conversations seen, likewise. */
  get conversations(): number {
    return this.#conversations;
  }

  /** Conversations with the key, but for the one that was noted last. */
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

  /** Whether the prompt begins with one that was seen and is longer; that one's end is taken away. */
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

/** 53 bits of a key: maps of numbers are twice as fast as maps of texts. */
function numberOf([low, high]: RendezvousKey): number {
  return (high & 0x1f_ffff) * 2 ** 32 + low;
}
