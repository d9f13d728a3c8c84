/** Edits (insert, drop, replace, swap of neighbours) between two texts, or `limit` + 1 once it is certain to be more. */
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
 * The candidate closest to `name`: by typing errors first (a third of the length at most), else the one that has most
 * words in common. Undefined when nothing is near.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  const limit = Math.max(2, Math.floor(name.length / 3));
  const words = wordsOf(name).filter((word) => word !== 'dyn' && word !== 'stator' && word !== 'no');
  let best: { name: string; distance: number } | undefined;
  let related: { name: string; share: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate, limit);
    if (distance <= limit && (best === undefined || distance < best.distance)) best = { name: candidate, distance };
    const candidateWords = wordsOf(candidate);
    const share = sharedWords(words, candidateWords) / Math.max(words.length, candidateWords.length);
    if (share >= 0.5 && (related === undefined || share > related.share)) related = { name: candidate, share };
  }
  return best?.name ?? related?.name;
}
