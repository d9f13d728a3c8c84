/**
 * @module clock
 * Time and chance, passed in as values. Production code takes `Clock` and `Random`. Tests pass a clock that moves only
 * when they move it; tests and the simulator use `seededRandom`. So nothing ever sleeps, and every run can be repeated.
 */
export { type Clock, systemClock, type Timer } from './clock.ts';
export { type Random, SYSTEM, seededRandom, systemRandom, type TimeAndChance } from './random.ts';
