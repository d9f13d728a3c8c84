import { reasonOf } from './serve-error.ts';

/**
 * Loads code that most processes do without. Node tries the file of a module once: where it could not be opened, because the
 * process had no file left, the same import fails until the process ends, and the error says so. What a server is sure to need it
 * therefore loads before it listens.
 * @param what is loaded, in words of an operator
 * @throws Error
 * @example
 * const { Registry } = await loadCode('figures for Prometheus', () => import('./printer.ts'));
 */
export async function loadCode<T>(what: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const why = `${reasonOf(cause)}; it is not tried again before the process is started anew`;
    throw new Error(`the code for ${what} could not be loaded: ${why}`, { cause });
  }
}
