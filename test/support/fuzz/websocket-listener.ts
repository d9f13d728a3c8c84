import { WebSocket } from 'ws';
import { socketFrame, upgradeText } from '../raw-websocket.ts';
import { waitUntil } from '../wait-until.ts';
import type { HostileValues } from './hostile-values.ts';
import { BAD_UTF8 } from './http-values.ts';
import { GONE_MS_MAX, LazyClient, type Listener } from './listener.ts';

const ANSWER_MS_MAX = 15_000;
const CREATE = { type: 'response.create', model: 'stator-mini', input: 'hi', max_output_tokens: 1, store: false };
const EVENT = JSON.stringify(CREATE);
const COMPLETED = /"type":"response\.(?:completed|incomplete)"/;
const FLOOD = 3000;
const PING = 9;

/**
 * Required outcome. closed: the server ends the connection. answered: it sends a response. any: either, or the client
 * leaves.
 */
interface Case {
  readonly said: readonly Buffer[];
  readonly verdict: 'closed' | 'answered' | 'any';
}

const closed = (...said: readonly Buffer[]): Case => ({ said, verdict: 'closed' });
const any = (...said: readonly Buffer[]): Case => ({ said, verdict: 'any' });
const ping = (): Buffer => socketFrame('', { opcode: PING });

const KINDS: Readonly<Record<string, (values: HostileValues) => Case>> = {
  'an event in pieces': (values) => {
    const width = 1 + values.random.below(20);
    const said: Buffer[] = [];
    for (let at = 0; at < EVENT.length; at += width) {
      said.push(
        socketFrame(EVENT.slice(at, at + width), { opcode: at === 0 ? 1 : 0, isLast: at + width >= EVENT.length }),
      );
      if (values.chance(0.1)) said.push(ping());
    }
    return { said: [Buffer.concat(said)], verdict: 'answered' };
  },
  'an event a byte at a time': () => ({
    said: Array.from(socketFrame(EVENT), (byte) => Buffer.of(byte)),
    verdict: 'answered',
  }),
  'an event without end': (values) =>
    any(
      ...Array.from({ length: 1 + values.random.below(20) }, (_, at) =>
        socketFrame('x'.repeat(values.random.below(5000)), { opcode: at === 0 ? 1 : 0, isLast: false }),
      ),
    ),
  'no mask': () => closed(socketFrame(EVENT, { isMasked: false })),
  'a length that is huge': (values) =>
    closed(socketFrame('x', { length: values.one([2n ** 63n, 2n ** 50n, 2n ** 32n, 2n ** 64n - 1n]) })),
  'text that is not UTF-8': (values) => closed(socketFrame(Buffer.from(`"${values.one(BAD_UTF8)}"`, 'latin1'))),
  'bytes in place of text': () => closed(socketFrame(EVENT, { opcode: 2 })),
  'a kind that does not exist': (values) => closed(socketFrame('x', { opcode: values.one([3, 4, 7, 11, 15]) })),
  'compression that was not agreed on': (values) =>
    closed(socketFrame('x', { reserved: values.one([0x40, 0x20, 0x10]) })),
  'a control frame that does not exist': (values) =>
    closed(
      values.one([
        socketFrame('x', { opcode: PING, isLast: false }),
        socketFrame('x'.repeat(200), { opcode: PING }),
        socketFrame('x', { opcode: 8 }),
        socketFrame(Buffer.of(0, 0), { opcode: 8 }),
        socketFrame(Buffer.of(3, 237), { opcode: 8 }),
      ]),
    ),
  'pieces in the wrong order': (values) =>
    closed(
      values.one(
        [[socketFrame('x', { opcode: 0 })], [socketFrame('{', { isLast: false }), socketFrame(EVENT)]].map((each) =>
          Buffer.concat(each),
        ),
      ),
    ),
  'pings without end': () => any(Buffer.concat(Array.from({ length: FLOOD }, ping))),
  'pongs without end': () => any(Buffer.concat(Array.from({ length: FLOOD }, () => socketFrame('', { opcode: 10 })))),
  'pieces without bytes': () =>
    any(
      socketFrame('', { isLast: false }),
      Buffer.concat(Array.from({ length: FLOOD }, () => socketFrame('', { opcode: 0, isLast: false }))),
    ),
  'many turns at once': (values) =>
    any(Buffer.concat(Array.from({ length: 1 + values.random.below(60) }, () => socketFrame(EVENT)))),
  'an event that does not exist': (values) =>
    any(
      socketFrame(values.chance(0.5) ? (JSON.stringify(values.json()) ?? '') : values.brokenText(CREATE)),
      socketFrame(EVENT),
    ),
  'a close at once': (values) =>
    closed(
      socketFrame(EVENT),
      socketFrame(Buffer.of(3, 232), { opcode: 8 }),
      ...(values.chance(0.5) ? [socketFrame(EVENT)] : []),
    ),
  noise: (values) => any(values.bytes(400)),
  'half a frame': (values) => any(socketFrame(EVENT).subarray(0, 1 + values.random.below(20))),
};

const NAMES = Object.keys(KINDS);

/** The WebSockets of a frontend. */
export class WebSocketListener implements Listener {
  readonly name = 'WebSockets';
  readonly #url: URL;

  constructor(url: string) {
    this.#url = new URL(url);
  }

  async play(values: HostileValues): Promise<void> {
    const kind = values.one(NAMES);
    const drawn = KINDS[kind]!(values);
    const isEnded = values.chance(0.1); // this side ends with its last bytes
    const isBeside = values.chance(0.2);
    try {
      await Promise.all([this.#meet(drawn, isEnded), isBeside ? this.ask() : undefined]);
    } catch (error) {
      throw new Error(`${this.name}, ${kind} (${drawn.verdict})`, { cause: error });
    }
  }

  async ask(): Promise<void> {
    const socket = new WebSocket(`ws://${this.#url.host}/v1/responses`);
    let text = '';
    socket.on('open', () => socket.send(EVENT)).on('error', () => {});
    socket.on('message', (data) => {
      text += String(data);
    });
    await waitUntil(() => COMPLETED.test(text), { timeoutMs: ANSWER_MS_MAX, what: 'the turn of an honest client' });
    socket.terminate();
  }

  /** Does nothing: silence after the handshake is allowed as long as the client answers pings. */
  async untilSilentAreGone(): Promise<void> {}

  async #meet({ said, verdict }: Case, isEnded: boolean): Promise<void> {
    const client = new LazyClient(Number(this.#url.port));
    try {
      await client.send([Buffer.from(upgradeText(this.#url.host))]);
      await waitUntil(() => client.isOver || client.text.includes('\r\n\r\n'), { timeoutMs: ANSWER_MS_MAX });
      if (!client.text.startsWith('HTTP/1.1 101 ')) throw new Error(`no socket: ${client.text.slice(0, 200)}`);
      await client.send(said);
      if (isEnded) client.socket.end();
      const isAnswered = (): boolean => COMPLETED.test(client.text);
      if (isEnded || verdict === 'closed') {
        await waitUntil(() => client.isOver, { timeoutMs: ANSWER_MS_MAX, what: 'the end' });
        await client.untilGone(GONE_MS_MAX);
      } else if (verdict === 'answered') {
        await waitUntil(isAnswered, { timeoutMs: ANSWER_MS_MAX, what: 'a response' });
      } else await this.ask();
    } finally {
      client.socket.destroy();
    }
  }
}
