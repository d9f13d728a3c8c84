import type { RendezvousKey } from '../rendezvous.ts';
import type { HashedPrompt } from '../types.ts';

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
export function keyOfBlock(sequence: Uint32Array, depth: number): RendezvousKey {
  return [sequence[2 * depth - 2] ?? 0, sequence[2 * depth - 1] ?? 0];
}
