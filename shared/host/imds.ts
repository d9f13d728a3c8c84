import type { Clock } from '../clock/index.ts';
import { readText, withDeadline } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';

interface MetadataOptions {
  /** Address of the service, without a path. */
  readonly url: string;
  readonly clock: Clock;
}

/** Life of a token, in seconds: the longest that the service gives ("Use IMDSv2"). */
const TOKEN_SECS = 21_600;
/** Share of its life after which a token is replaced. */
const RENEW_AT = 0.9;
/** Longest wait for one answer. The service is on the same machine, and its documentation asks clients to retry. */
const ANSWER_MS_MAX = 2000;
const TRIES_MAX = 3;
const FIRST_PAUSE_MS = 100;
/** Longest text that is read; the longest value here has a few hundred characters. */
const BYTES_MAX = 16_384;

/** A failure that another try may heal. */
class MetadataAway extends Error {}

/**
 * Reads metadata of the EC2 instance by IMDSv2 ("Use the Instance Metadata Service to access instance metadata"). One
 * token serves all reads until its life ends or the service refuses it.
 */
export class InstanceMetadata {
  readonly #options: MetadataOptions;
  #token: { readonly text: string; readonly untilMs: number } | undefined;

  constructor(options: MetadataOptions) {
    this.#options = options;
  }

  /**
   * Returns the value of a path under `/latest/meta-data/`; undefined if the instance has none (404).
   * @throws Error with one line after three tries, or if the service refuses; the signal's reason if it aborts
   */
  async read(path: string, signal: AbortSignal): Promise<string | undefined> {
    const { clock, url } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#readOnce(path, signal);
      } catch (thrown) {
        signal.throwIfAborted();
        if (!(thrown instanceof MetadataAway) || attempt === TRIES_MAX) {
          throw new Error(`instance metadata at ${url}, ${path}: ${reasonOf(thrown)}`, { cause: thrown });
        }
        await clock.sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), signal);
      }
    }
  }

  async #readOnce(path: string, signal: AbortSignal): Promise<string | undefined> {
    const headers = { 'x-aws-ec2-metadata-token': await this.#tokenFor(signal) };
    const { status, text } = await this.#ask('GET', `/latest/meta-data/${path}`, headers, signal);
    if (status === 404) return undefined;
    if (status === 200) return text.trim();
    if (status === 401) this.#token = undefined; // the instance was stopped, or its clock has moved
    throw refusalOf(status);
  }

  async #tokenFor(signal: AbortSignal): Promise<string> {
    const { clock } = this.#options;
    if (this.#token !== undefined && clock.nowMs() < this.#token.untilMs) return this.#token.text;
    const headers = { 'x-aws-ec2-metadata-token-ttl-seconds': String(TOKEN_SECS) };
    const { status, text } = await this.#ask('PUT', '/latest/api/token', headers, signal);
    if (status !== 200) throw refusalOf(status);
    this.#token = { text, untilMs: clock.nowMs() + TOKEN_SECS * 1000 * RENEW_AT };
    return text;
  }

  #ask(method: string, path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal) {
    const { url, clock } = this.#options;
    const lateMessage = `no answer within ${ANSWER_MS_MAX} ms`;
    return withDeadline({ clock, timeoutMs: ANSWER_MS_MAX, signal, lateMessage }, async (abort) => {
      const response = await fetch(`${url.replace(/\/$/, '')}${path}`, { method, headers, signal: abort });
      const { text } = await readText(response.body ?? [], { bytesMax: BYTES_MAX, timeoutMs: ANSWER_MS_MAX, clock });
      if (text === undefined) throw new Error(`the answer is not a text of at most ${BYTES_MAX} bytes`);
      return { status: response.status, text };
    }).catch((thrown: unknown) => {
      throw new MetadataAway(reasonOf(thrown), { cause: thrown });
    });
  }
}

/** Returns the error of a status that gives no value. 403 means that the instance has its metadata turned off. */
function refusalOf(status: number): Error {
  const isAway = status === 401 || status === 429 || status >= 500;
  return isAway ? new MetadataAway(`it answered ${status}`) : new Error(`it answered ${status}`);
}
