const PARALLEL = 16;

/** Visits all `items`, 16 at a time. Rejects with the first failure, once its batch has settled. */
export async function inBatches<T>(items: readonly T[], visit: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += PARALLEL) {
    const results = await Promise.allSettled(items.slice(at, at + PARALLEL).map(visit));
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }
}
