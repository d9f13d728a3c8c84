import { reasonOf } from './serve-error.ts';

/**
 * Loads code that most processes do not need. Node tries to open the file of a module only once. If that fails because
 * the process has no file descriptor left, the same import fails until the process ends, and the error says so. A
 * server therefore loads the code that it will surely need before it listens.
 * @param what name of the code, in words for an operator
 * @throws Error
 * @example const { connect } = await loadCode('the client of NATS', () => import('@nats-io/transport-node'));
 */
export async function loadCode<T>(what: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const why = `${reasonOf(cause)}; it is not tried again before the process is started anew`;
    throw new Error(`the code for ${what} could not be loaded: ${why}`, { cause });
  }
}
