/**
 * @module engines/mocker/profile
 * Measured timing tables of a real engine in place of the mock engine's polynomials.
 */
export { readTimingProfile } from './read-profile.ts';
