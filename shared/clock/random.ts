import { randomBytes, randomUUID } from 'node:crypto';
import { type Clock, systemClock } from './clock.ts';

/** Source of chance. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Uniform integer in [0, bound). */
  below(bound: number): number;
  /** UUID version 4. */
  uuid(): string;
  /** A 53-bit identifier as lower-case hex without padding. */
  instanceId(): string;
}

/** Chance from the operating system. */
export const systemRandom: Random = {
  next: () => Math.random(),
  below: (bound) => Math.floor(Math.random() * bound),
  uuid: () => randomUUID(),
  instanceId: () => (randomBytes(8).readBigUInt64BE() >> 11n).toString(16),
};

/** Time and chance of a process. The entry point of the process chooses them once. */
export interface TimeAndChance {
  readonly clock: Clock;
  readonly random: Random;
}

/** Time and chance of the machine, for entry points. */
export const SYSTEM: TimeAndChance = { clock: systemClock, random: systemRandom };

/** Returns repeatable chance: splitmix32, with 32 bits per draw and a period of 2^32. Not for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const splitmix = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
  const next = (): number => splitmix() / 0x1_0000_0000;
  const hex = (digits: number): string => {
    let text = '';
    while (text.length < digits) text += splitmix().toString(16).padStart(8, '0');
    return text.slice(0, digits);
  };
  return {
    next,
    below: (bound) => Math.floor(next() * bound),
    uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-${'89ab'[Math.floor(next() * 4)]}${hex(3)}-${hex(12)}`,
    instanceId: () => (BigInt(`0x${hex(16)}`) >> 11n).toString(16),
  };
}
