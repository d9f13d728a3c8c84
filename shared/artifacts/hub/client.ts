import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { type HubModel, nameOfHubModel } from '../../config/index.ts';
import { detailOf, reasonOf } from '../../errors/index.ts';
import { faultOfHub, HubFault } from './faults.ts';
import { type HubListing, readListing } from './listing.ts';
import type { HubPlace } from './place.ts';

/** Longest wait for the head of one answer, as in Hugging Face's own tools. */
const HEAD_MS_MAX = 10_000;
/** Longest wait for the rest of a list of files. */
const LISTING_MS_MAX = 30_000;
/** Largest list of the files of a model; one with 20,000 files takes 4 MB. */
const LISTING_BYTES_MAX = 16 * 1024 * 1024;
const REDIRECTS_MAX = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Part of a file that the hub sends. */
export interface HubBytes {
  /** Position of the first byte: 0 if the hub sends the whole file, whatever was asked for. */
  readonly from: number;
  readonly body: ReadableStream<Uint8Array>;
}

/**
 * Asks a hub for the files of models. It follows redirects itself: the token goes only to the hub's own address, and
 * never over plain HTTP, except to this machine.
 */
export class HubClient {
  readonly #place: HubPlace;
  readonly #clock: Clock;

  constructor(place: HubPlace, clock: Clock) {
    this.#place = place;
    this.#clock = clock;
  }

  /** Lists the files of a model, with the commit that they belong to. @throws HubFault */
  async list(model: HubModel, signal: AbortSignal): Promise<HubListing> {
    const url = `${this.#place.endpoint}/api/models/${model.id}/revision/${encodeURIComponent(model.revision)}?blobs=true`;
    const response = await this.#ask(url, model, {}, signal);
    const limit = { clock: this.#clock, timeoutMs: LISTING_MS_MAX, signal };
    const text = await withDeadline(limit, () => readBounded(response, LISTING_BYTES_MAX, url));
    return readListing(text, this.#place.endpoint, model);
  }

  /** Opens a file of a commit, branch or tag, from the byte at `from`. @throws HubFault */
  async open(model: HubModel, revision: string, name: string, from: number, signal: AbortSignal): Promise<HubBytes> {
    const [at, file] = [revision, name].map(encodeURIComponent);
    const url = `${this.#place.endpoint}/${model.id}/resolve/${at}/${file}`;
    const response = await this.#ask(url, model, from === 0 ? {} : { range: `bytes=${from}-` }, signal);
    const { body } = response;
    if (body === null) throw new HubFault(`${this.#place.endpoint} sent nothing of ${name}`, { isTransient: true });
    if (response.status === 200) return { from: 0, body };
    const [, first] = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '') ?? [];
    if (first === `${from}`) return { from, body };
    await body.cancel();
    throw new HubFault(`${this.#place.endpoint} sent another part of ${name} than was asked for`);
  }

  /** Sends a request, and follows its redirects. Returns an answer with status 200 or 206. @throws HubFault */
  async #ask(
    first: string,
    model: HubModel,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Response> {
    const token = await this.#place.token();
    let url = new URL(first);
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      const sentToken = token !== undefined && this.#mayGetToken(url);
      const response = await this.#send(
        url,
        { ...headers, ...(sentToken ? { authorization: `Bearer ${token}` } : {}) },
        signal,
      );
      if (response.status === 200 || response.status === 206) return response;
      await response.body?.cancel();
      const to = response.headers.get('location');
      if (to === null || !REDIRECTS.has(response.status)) {
        const { endpoint } = this.#place;
        throw faultOfHub(response.status, response.headers, {
          endpoint,
          model,
          sentToken,
          hasToken: token !== undefined,
        });
      }
      url = nextUrl(url, to);
    }
    throw new HubFault(`${this.#place.endpoint} redirects ${nameOfHubModel(model)} more than ${REDIRECTS_MAX} times`);
  }

  async #send(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Response> {
    const late = new AbortController();
    const timer = this.#clock.after(HEAD_MS_MAX, () => late.abort(new Error(`no answer within ${HEAD_MS_MAX} ms`)));
    try {
      return await fetch(url, {
        // Compressed bytes have no positions from which a download could be resumed.
        headers: { 'accept-encoding': 'identity', 'user-agent': 'stator', ...headers },
        redirect: 'manual',
        signal: AbortSignal.any([signal, late.signal]),
      });
    } catch (thrown) {
      signal.throwIfAborted();
      throw new HubFault(`${url.origin} cannot be reached: ${detailOf(thrown)}`, { isTransient: true, cause: thrown });
    } finally {
      timer.cancel();
    }
  }

  #mayGetToken(url: URL): boolean {
    const isPrivate = url.protocol === 'https:' || LOOPBACK.test(url.hostname);
    return isPrivate && url.origin === new URL(this.#place.endpoint).origin;
  }
}

/** Returns the target of a redirect. @throws HubFault if it leaves HTTP, or gives up HTTPS */
function nextUrl(from: URL, to: string): URL {
  const target = URL.canParse(to, from.href) ? new URL(to, from.href) : undefined;
  const isSafe = target?.protocol === 'https:' || (target?.protocol === 'http:' && from.protocol === 'http:');
  if (target === undefined || !isSafe) throw new HubFault(`${from.origin} redirects to an address that is not safe`);
  return target;
}

async function readBounded(response: Response, bytesMax: number, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw new HubFault(`${url}: more than ${bytesMax} bytes`);
      chunks.push(chunk);
    }
  } catch (thrown) {
    if (thrown instanceof HubFault) throw thrown;
    throw new HubFault(`${url}: the answer broke off: ${reasonOf(thrown)}`, { isTransient: true, cause: thrown });
  }
  return Buffer.concat(chunks).toString('utf8');
}
