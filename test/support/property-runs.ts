/** Whether everything is to be played, as `npm run test:faults` does, however long it takes. */
const IS_FULL = process.env.STATOR_TEST_FAULTS === 'all';

/** Cases of a property: so many with each change, and all of them in `npm run test:faults`. */
export const propertyRuns = (usually: number, full: number): number => (IS_FULL ? full : usually);
