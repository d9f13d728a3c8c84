/**
 * Counts the edits (insert, drop, replace, swap of neighbours) between two texts. Returns `limit` + 1 as soon as there
 * are certainly more.
 */
function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) > limit) return limit + 1;
  let older: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(previous[column]! + 1, current[column - 1]! + 1, previous[column - 1]! + (same ? 0 : 1));
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (row > 1 && column > 1 && swapped) cost = Math.min(cost, older[column - 2]! + 1);
      current.push(cost);
    }
    if (Math.min(...current) > limit + 1) return limit + 1;
    older = previous;
    previous = current;
  }
  return previous[right.length]!;
}

function wordsOf(name: string): readonly string[] {
  return name.toLowerCase().split(/[-_]+/).filter(Boolean);
}

function sharedWords(left: readonly string[], right: readonly string[]): number {
  return left.filter((word) => right.includes(word)).length;
}

/**
 * Longest name that is compared. A longer name is not a typing error, and a stranger could make the comparison
 * arbitrarily expensive.
 */
const NAME_CHARS_MAX = 100;

/**
 * Returns the candidate that `name` misspells, with few typing errors for its length. Returns undefined if no candidate
 * fits, and for names of more than 100 characters.
 */
export function misspeltName(name: string, candidates: Iterable<string>): string | undefined {
  const few = Math.max(2, Math.floor(name.length / 5));
  return closest(name, candidates, Math.min(few, Math.floor((name.length - 1) / 2)));
}

/**
 * Returns the candidate that differs from `name` by at most `editsMax` typing errors and by at most half of its
 * letters.
 */
export function nameWithin(name: string, candidates: Iterable<string>, editsMax: number): string | undefined {
  const letters = name.replace(/^-+/, '').length;
  return closest(name, candidates, Math.min(editsMax, Math.floor((letters - 1) / 2)));
}

/**
 * Returns the candidate closest to `name`: by typing errors first (at most a third of the length), otherwise the one
 * with the most words in common. Returns undefined if none is near, and for names of more than 100 characters.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  const names = [...candidates];
  return closest(name, names, Math.max(2, Math.floor(name.length / 3))) ?? mostRelated(name, names);
}

/**
 * Works like `nearestName`, for names of which other programs have many: few typing errors, or more than half of the
 * words in common.
 */
export function likelyName(name: string, candidates: Iterable<string>): string | undefined {
  const names = [...candidates];
  return misspeltName(name, names) ?? mostRelated(name, names, 0.6);
}

function closest(name: string, candidates: Iterable<string>, limit: number): string | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined;
  let best: { name: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate, limit);
    if (distance <= limit && (best === undefined || distance < best.distance)) best = { name: candidate, distance };
  }
  return best?.name;
}

function mostRelated(name: string, candidates: readonly string[], shareMin = 0.5): string | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined;
  const words = wordsOf(name).filter((word) => word !== 'dyn' && word !== 'stator' && word !== 'no');
  let related: { name: string; share: number } | undefined;
  for (const candidate of candidates) {
    const candidateWords = wordsOf(candidate);
    const share = sharedWords(words, candidateWords) / Math.max(words.length, candidateWords.length);
    if (share >= shareMin && (related === undefined || share > related.share)) related = { name: candidate, share };
  }
  return related?.name;
}
