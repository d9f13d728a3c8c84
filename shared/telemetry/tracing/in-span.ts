import { toServeError } from '../../errors/index.ts';
import type { Span } from './span.ts';

/** Does `work`, which may go on in a promise, as a part of `parent`; without one it is simply done. */
export function inSpan<T>(parent: Span | undefined, name: string, work: () => T): T {
  if (parent === undefined) return work();
  const span = parent.child(name);
  const endFailed = (thrown: unknown): void => span.end(toServeError(thrown).code);
  try {
    const result = work();
    if (result instanceof Promise) result.then(() => span.end(), endFailed);
    else span.end();
    return result;
  } catch (thrown) {
    endFailed(thrown);
    throw thrown;
  }
}
