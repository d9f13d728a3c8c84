import { fnv1a } from '../records/index.ts';

/** What prompts, sessions or requests have in common: 64 bits, low half first. */
export type RendezvousKey = readonly [low: number, high: number];

/** Key of a text: an id, a session. The same text has the same key in every process. */
export function keyOfText(text: string): RendezvousKey {
  return [fnv1a(text), fnv1a(text, 0x050c5d1f)];
}

/** What the weights of somebody follow from, made once for each name. */
export function seedOf(name: string): number {
  return fnv1a(name);
}

/**
 * Weight of a key at whoever has `seed`: 32 bits that depend on every bit of both. The heaviest of several is the key's own
 * (rendezvous hashing): every process finds the same one, and when somebody comes or goes only the keys that he gains or loses
 * move.
 */
export function weightOf([low, high]: RendezvousKey, seed: number): number {
  return mix(Math.imul(mix(seed ^ low), 0x9e3779b1) ^ high);
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
