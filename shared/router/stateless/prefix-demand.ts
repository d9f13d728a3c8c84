import type { RendezvousKey } from '../rendezvous.ts';
import { keyOfBlock, type PromptLevels } from './prompt-levels.ts';

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
 * What part of the traffic has which key, as far as one process sees: its requests are a sample of all. Conversations are
 * counted and not their turns, for one has a request under way at a time; a prompt that goes on from one seen before is the
 * same conversation.
 */
export class PrefixDemand {
  readonly #seen = new Map<number, Seen>(); // the one used longest ago first
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
    this.#seen.delete(number);
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
    for (const oldest of this.#seen.keys()) {
      if (this.#seen.size <= KEYS_MAX) break;
      this.#seen.delete(oldest);
    }
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
