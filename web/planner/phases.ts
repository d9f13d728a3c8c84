/** Phases of a worker in their order, each with the word that the page shows. */
export const PHASES = [
  ['capacity', 'ordered'],
  ['starting', 'starting'],
  ['boot', 'boots'],
  ['image', 'pulls its image'],
  ['weights', 'loads weights'],
  ['engine', 'starts its engine'],
  ['compile', 'compiles'],
  ['register', 'registers'],
  ['serving', 'serves'],
  ['draining', 'drains'],
] as const;

/** Returns the pool of an option, `decode/1-spot`. */
export function poolOf(key: string): string {
  return key.split('/')[0] ?? key;
}
