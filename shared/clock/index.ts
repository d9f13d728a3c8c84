/**
 * @module clock
 * Time and chance as values that are passed in. Production code takes `Clock` and `Random`; tests pass a clock that moves only
 * when told to, and they and the simulator `seededRandom`, so nothing ever sleeps and every run can be repeated.
 */
export { type Clock, systemClock, type Timer } from './clock.ts';
export { type Random, SYSTEM, seededRandom, systemRandom, type TimeAndChance } from './random.ts';
