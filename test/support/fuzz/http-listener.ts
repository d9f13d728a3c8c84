import { waitUntil } from '../wait-until.ts';
import type { HostileValues } from './hostile-values.ts';
import { WIRE_KINDS, type WireCase, type WirePlace, wireCase } from './http-wire.ts';
import { GONE_MS_MAX, LazyClient, type Listener, SILENT_MS_MAX } from './listener.ts';

const ANSWER_MS_MAX = 15_000;
/** Time to wait after the last byte of an answer, because more may follow. */
const QUIET_MS = 60;
const SILENT_MAX = 12;

/** An HTTP listener. */
export class HttpListener implements Listener {
  readonly name: string;
  readonly #port: number;
  readonly #place: WirePlace;
  readonly #silent: LazyClient[] = [];
  /** Statuses of honest requests to `get` and `post`. */
  readonly #usual: { readonly get: number; readonly post: number };

  private constructor(
    name: string,
    port: number,
    place: WirePlace,
    usual: { readonly get: number; readonly post: number },
  ) {
    this.name = name;
    this.#port = port;
    this.#place = place;
    this.#usual = usual;
  }

  static async of(name: string, url: string, place: Omit<WirePlace, 'host'>): Promise<HttpListener> {
    const { host, port } = new URL(url);
    const { post } = place;
    const get = await fetch(`${url}${place.get}`);
    await get.arrayBuffer();
    const headers = { 'content-type': 'application/json' };
    const posted = post && (await fetch(`${url}${post.path}`, { method: post.method, headers, body: post.body }));
    await posted?.arrayBuffer();
    const usual = { get: get.status, post: posted?.status ?? get.status };
    return new HttpListener(name, Number(port), { ...place, host }, usual);
  }

  /**
   * Plays a case that `values` draw, sometimes with an honest client beside it.
   * @throws Error that says what was wrong with the answer
   */
  async play(values: HostileValues): Promise<void> {
    const drawn = wireCase(values.one(WIRE_KINDS), values, this.#place);
    const isBeside = values.chance(0.2);
    try {
      await Promise.all([this.#meet(drawn), isBeside ? this.ask() : undefined]);
    } catch (error) {
      const sent = Buffer.concat(drawn.pieces).toString('latin1').slice(0, 600);
      const what = error instanceof Error ? error.message : String(error);
      throw new Error(`${this.name}, ${drawn.kind} (${drawn.verdict}): ${what}\n${JSON.stringify(sent)}`, {
        cause: error,
      });
    }
  }

  /**
   * Sends an honest request on a connection of its own.
   * @throws Error if the answer is not the usual one
   */
  async ask(): Promise<void> {
    const { host, get } = this.#place;
    const client = new LazyClient(this.#port);
    await client.send([Buffer.from(`GET ${get} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)]);
    await waitUntil(() => client.isOver, { timeoutMs: ANSWER_MS_MAX, what: 'an answer to an honest client' });
    client.socket.destroy();
    const [answer] = client.answers;
    if (answer?.status !== this.#usual.get) throw new Error(`an honest client got ${answer?.status}`);
  }

  /**
   * Waits until the server has closed every connection on which the client said nothing.
   * @throws Error if it does not close one in time
   */
  async untilSilentAreGone(): Promise<void> {
    await Promise.all(
      this.#silent.splice(0).map(async (client) => {
        await waitUntil(() => client.isOver, { timeoutMs: SILENT_MS_MAX, what: `${this.name} to end a silent client` });
        await client.untilGone(GONE_MS_MAX);
      }),
    );
  }

  async #meet(drawn: WireCase): Promise<void> {
    const client = new LazyClient(this.#port);
    await client.send(drawn.pieces);
    if (drawn.verdict === 'silent') {
      this.#silent.push(client);
      if (this.#silent.length > SILENT_MAX) this.#silent.shift()?.socket.destroy();
      return;
    }
    try {
      if (drawn.verdict === 'stalled') await this.ask();
      else await this.#judge(drawn, client);
    } finally {
      client.socket.destroy();
    }
  }

  async #judge({ verdict, before = 0 }: WireCase, client: LazyClient): Promise<void> {
    const isSettled = (): boolean => {
      const { answers } = client;
      const isQuiet = performance.now() - client.heardAtMs > QUIET_MS;
      return (
        client.isOver ||
        (verdict !== 'refused' &&
          verdict !== 'ended' &&
          isQuiet &&
          answers.length > before &&
          answers.at(-1)?.isWhole === true)
      );
    };
    await waitUntil(isSettled, { timeoutMs: ANSWER_MS_MAX, what: 'an answer or an end' }).catch((error: Error) => {
      throw new Error(`${error.message}, only ${JSON.stringify(client.text.slice(0, 300))}`);
    });
    const { answers } = client;
    const statuses = answers.map(({ status }) => status);
    const allowed: readonly number[] = [501, this.#usual.get, this.#usual.post];
    const wrong = statuses.find((status) => status >= 500 && !allowed.includes(status));
    if (wrong !== undefined) throw new Error(`it is told ${wrong}: ${client.text.slice(-500)}`);
    for (const status of statuses.slice(0, before)) {
      if (status !== this.#usual.get) throw new Error(`an earlier honest request got ${status}`);
    }
    this.#compare(verdict, statuses.slice(before));
    if (client.isEnded) await client.untilGone(GONE_MS_MAX);
  }

  #compare(verdict: WireCase['verdict'], statuses: readonly number[]): void {
    const last = statuses.at(-1);
    const told = `it is told ${statuses.join(', ') || 'nothing'}`;
    if (verdict === 'refused' && (statuses.length !== 1 || last === undefined || last < 400)) throw new Error(told);
    if (verdict === 'ended' && statuses.length !== 1) throw new Error(told);
    if (verdict === 'declined' && last !== 400) throw new Error(told);
    const usual: readonly (number | undefined)[] = [this.#usual.get, this.#usual.post];
    if (verdict === 'asked' && !usual.includes(last)) throw new Error(told);
  }
}
