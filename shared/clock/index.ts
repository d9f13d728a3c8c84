/**
 * @module clock
 * Time and chance as values that are passed in. Production code takes `Clock` and `Random`; tests and the simulator pass
 * `VirtualClock` and `seededRandom`, so nothing ever sleeps and every run can be repeated.
 */
export { type Clock, systemClock, type Timer, VirtualClock } from './clock.ts';
export { type Random, SYSTEM, seededRandom, systemRandom, type TimeAndChance } from './random.ts';
