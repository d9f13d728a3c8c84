import { fnv1a } from '../records/index.ts';

/** Key that prompts, sessions or requests have in common: 64 bits, low half first. */
export type RendezvousKey = readonly [low: number, high: number];

/** Returns the key of a text (an id, a session). A text has the same key in every process. */
export function keyOfText(text: string): RendezvousKey {
  return [fnv1a(text), fnv1a(text, 0x050c5d1f)];
}

/** Returns the seed from which the weights of a worker or router follow. Make it once for each name. */
export function seedOf(name: string): number {
  return fnv1a(name);
}

/**
 * Returns the weight of a key at the candidate with this seed: 32 bits that depend on every bit of both. The heaviest
 * candidate owns the key (rendezvous hashing). Every process finds the same owner, and when a candidate comes or goes
 * only its own keys move.
 */
export function weightOf([low, high]: RendezvousKey, seed: number): number {
  return mix(Math.imul(mix(seed ^ low), 0x9e3779b1) ^ high);
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
