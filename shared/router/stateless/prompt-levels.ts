import { keyOfText, type RendezvousKey } from '../rendezvous.ts';
import type { HashedPrompt } from '../types.ts';

/** What one prompt has in common with others, from what many have to what few have: its session, then longer and longer beginnings. */
export interface PromptLevels {
  readonly keys: readonly RendezvousKey[];
  readonly prompt: HashedPrompt;
}

/** The first beginning that is looked at, in tokens; each further one is longer by the factor. */
const FIRST_TOKENS = 128;
const GROWTH = 1.25;

/**
 * The levels of a prompt. Beginnings end at fixed depths, so that a conversation keeps those that it has when it grows.
 *
 * @param session what the client says that belongs together: a session, a `prompt_cache_key`. @default nothing
 */
export function promptLevels(prompt: HashedPrompt, blockSizeTokens: number, session?: string): PromptLevels {
  const { sequence } = prompt.hashes;
  const keys: RendezvousKey[] = session === undefined ? [] : [keyOfText(session)];
  const blocks = sequence.length >> 1;
  let depth = Math.max(1, Math.round(FIRST_TOKENS / Math.max(1, blockSizeTokens)));
  for (; depth <= blocks; depth = Math.max(depth + 1, Math.round(depth * GROWTH))) {
    keys.push(keyOfBlock(sequence, depth));
  }
  return { keys, prompt };
}

/** Key of everything up to the end of block `depth`, counted from 1: a sequence hash covers all blocks before it. */
export function keyOfBlock(sequence: Uint32Array, depth: number): RendezvousKey {
  return [sequence[2 * depth - 2] ?? 0, sequence[2 * depth - 1] ?? 0];
}
